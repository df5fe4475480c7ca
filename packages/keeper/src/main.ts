// The keeper's process: told on standard input which session it tends, it lives until the session rests.
import { KeeperPlace, KeeperStart } from '@anchorhold/protocol/keeper-start'
import { systemClock } from '@anchorhold/link/clock'
import { folderDisk } from '@anchorhold/link/disk'
import { takeLock } from '@anchorhold/link/lock'
import { sayHeldReady, sayReady } from '@anchorhold/link/stands'
import { unixWire } from '@anchorhold/link/wire'
import { randomBytes } from 'node:crypto'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { agentDrivers } from './agents/drivers.ts'
import { writeSettings } from './cell-settings.ts'
import { linkCaches } from './caches.ts'
import { cellSpec } from './cell-spec.ts'
import { drivers } from './cells/drivers.ts'
import { inTime } from './cells/in-time.ts'
import { findToolchains } from './cells/toolchains.ts'
import { watchGate } from './gate-watch.ts'
import { putNetFiles } from './net-files.ts'
import { pinFiles } from './pins.ts'
import { veilOver } from './repo-filter/veil.ts'
import { sayingFile } from './saying-file.ts'
import { settle } from './settle.ts'
import { tend } from './tend.ts'
import { trustFolder, writeTrust } from './trust.ts'
import { warmCell } from './warm-cell.ts'
import { checkedOutIn } from './workspace/repository-watch.ts'

const troubleCharsMax = 1000
// What the agent makes is as readable as what its owner makes; the keeper's own files say their mode.
process.umask(0o022)

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
/** Null when there is nothing more, or a daemon that died was in the middle of saying it. */
const heard = async (): Promise<unknown> => {
  const { value, done } = await lines.next()
  try {
    return done ? null : JSON.parse(value)
  } catch {
    return null
  }
}
const first = await heard()
const ahead = KeeperPlace.safeParse(first).data ?? null
if (ahead !== null) await makeFolders(ahead.place)
let isWaiting = true
const warm =
  ahead === null
    ? null
    : warmCell(
        inTime(drivers[ahead.place.rung](ahead.place.files)),
        cellSpec(ahead.place, { mounts: agentMounts(ahead), covers: [] }),
        (trouble) => (isWaiting ? sayHeldReady(trouble?.slice(0, troubleCharsMax) ?? null) : undefined),
      )
const told = ahead === null ? first : await heard()
isWaiting = false
// A spare one whose daemon ended has nothing to do.
if (told === null) {
  await warm?.[Symbol.asyncDispose]()
  process.exit(0)
}
const start = KeeperStart.parse(told)
const { place, agent, policy } = start
// Another keeper still tends this session: the daemon waits for it to leave.
const lock = takeLock(`${place.folder}/keeper.lock`)
if (lock === null) process.exit(75)
if (process.ppid !== place.started_by) process.exit(75)

await makeFolders(place)
const hasNet = policy.network === 'proxy_only'
const furnishing = Promise.all([prepareHome(), hasNet ? writeTrust(place, policy.net_ca) : undefined])
furnishing.catch(() => {})
const one = await tend({
  start,
  cells: warm ?? inTime(drivers[place.rung](place.files)),
  agents: agentDrivers[agent.driver],
  toolchains: policy.toolchains.length === 0 ? [] : findToolchains(policy.owner_home),
  veil: veilOver({
    ...{ workspace: place.workspace, filter: policy.repo_filter, folder: `${place.folder}/covers`, memory: policy.hidden },
  }),
  disk: folderDisk(`${place.folder}/outbox`),
  saying: sayingFile(`${place.folder}/saying.log`),
  wire: unixWire,
  pid: process.pid,
  settle: () => settle({ socketPath: `${place.windows}/model.sock`, clock: systemClock }),
  pinFiles,
  furnish: {
    agent: async () => void (await furnishing),
    programs: async () => (hasNet ? writeSettings({ folder: place.folder, forges: policy.forges }) : undefined),
  },
  checkedOut: (cell) => checkedOutIn(cell, place),
  agentBeatMs: 5000,
  clock: systemClock,
  random: randomBytes,
  die(error) {
    console.error(error instanceof Error ? (error.stack ?? error.message) : String(error))
    process.exit(70)
  },
})
sayReady()
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
  process.on(signal, () => void one.goDown(`The keeper got ${signal}`))
const watching = new AbortController()
const { gate } = policy
if (gate !== null) void watchGate({ socketPath: `${place.windows}/model.sock`, gate, log: console.log }, watching.signal)
await one.over
watching.abort()
// It is written anew for the next cell, and is the most that a session would keep while it rests.
await rm(trustFolder(place.folder), { recursive: true, force: true }).catch(() => {})
lock.release()
process.exit(0)

/** What a cell is made of, and what it sees of the keeper's. */
async function makeFolders({ folder }: KeeperPlace['place']): Promise<void> {
  await mkdir(`${folder}/cell`, { recursive: true, mode: 0o700 })
  await mkdir(trustFolder(folder), { recursive: true, mode: 0o755 })
}

/** Files of the host's that the agent needs in its cell. */
function agentMounts({ place: { files }, agent: { driver, program } }: KeeperPlace) {
  return agentDrivers[driver].mounts({ ...files, program })
}

/** The agent's home belongs to the agent: a file is only ever made where there is none, and no link is followed. */
async function prepareHome(): Promise<void> {
  const { folder } = place
  const { git_identity, caches } = policy
  const lines = ['[safe]\n\tdirectory = *\n[init]\n\tdefaultBranch = main\n']
  if (git_identity !== null) {
    const quote = (value: string) => `"${value.replace(/[\\"]/g, '\\$&').replace(/[\n\r\0]/g, ' ')}"`
    lines.push(`[user]\n\tname = ${quote(git_identity.name)}\n\temail = ${quote(git_identity.email)}\n`)
  }
  await writeFile(`${folder}/home/.gitconfig`, lines.join(''), { flag: 'wx', mode: 0o644 }).catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    },
  )
  linkCaches(`${folder}/home`, { shared: caches !== null })
  if (!hasNet) return
  await putNetFiles(`${folder}/home`, folder)
}
