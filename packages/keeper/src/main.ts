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
import { claudeDriver } from './agents/claude/claude.ts'
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
const place = KeeperPlace.safeParse(first).data?.place ?? null
if (place !== null) await makeFolders(place)
let isWaiting = true
const warm =
  place === null
    ? null
    : warmCell(
        inTime(drivers[place.rung](place.files)),
        cellSpec(place, { mounts: claudeDriver.mounts(place.files), covers: [] }),
        (trouble) => (isWaiting ? sayHeldReady(trouble?.slice(0, troubleCharsMax) ?? null) : undefined),
      )
const told = place === null ? first : await heard()
isWaiting = false
// A spare one whose daemon ended has nothing to do.
if (told === null) {
  await warm?.[Symbol.asyncDispose]()
  process.exit(0)
}
const start = KeeperStart.parse(told)
// Another keeper still tends this session: the daemon waits for it to leave.
const lock = takeLock(`${start.folder}/keeper.lock`)
if (lock === null) process.exit(75)
if (process.ppid !== start.started_by) process.exit(75)

await makeFolders(start)
const furnishing = Promise.all([prepareHome(start), start.network === 'proxy_only' ? writeTrust(start) : undefined])
furnishing.catch(() => {})
const one = await tend({
  start,
  cells: warm ?? inTime(drivers[start.rung](start.files)),
  agents: claudeDriver,
  toolchains: start.toolchains.length === 0 ? [] : findToolchains(start.owner_home),
  veil: veilOver({
    ...{ workspace: start.workspace, filter: start.repo_filter, folder: `${start.folder}/covers`, memory: start.hidden },
  }),
  disk: folderDisk(`${start.folder}/outbox`),
  saying: sayingFile(`${start.folder}/saying.log`),
  wire: unixWire,
  pid: process.pid,
  settle: () => settle({ socketPath: `${start.windows}/model.sock`, clock: systemClock }),
  pinFiles,
  furnish: {
    agent: async () => void (await furnishing),
    programs: async () => (start.network === 'proxy_only' ? writeSettings(start) : undefined),
  },
  checkedOut: (cell) => checkedOutIn(cell, start),
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
const { gate } = start
if (gate !== null) void watchGate({ socketPath: `${start.windows}/model.sock`, gate, log: console.log }, watching.signal)
await one.over
watching.abort()
// It is written anew for the next cell, and is the most that a session would keep while it rests.
await rm(trustFolder(start.folder), { recursive: true, force: true }).catch(() => {})
lock.release()
process.exit(0)

/** What a cell is made of, and what it sees of the keeper's. */
async function makeFolders({ folder }: Pick<KeeperStart, 'folder'>): Promise<void> {
  await mkdir(`${folder}/cell`, { recursive: true, mode: 0o700 })
  await mkdir(trustFolder(folder), { recursive: true, mode: 0o755 })
}

/** The agent's home belongs to the agent: a file is only ever made where there is none, and no link is followed. */
async function prepareHome({ folder, git_identity, network, caches }: KeeperStart): Promise<void> {
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
  if (network !== 'proxy_only') return
  await putNetFiles(`${folder}/home`, folder)
}
