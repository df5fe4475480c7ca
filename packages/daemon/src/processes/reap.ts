import { isUnlocked } from '@anchorhold/link/lock'
import { endOrphans } from '@anchorhold/link/orphans'
import { isOwnerGone } from '@anchorhold/link/owner'
import type { SessionId } from '@anchorhold/protocol/ids'
import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { z } from 'zod'
import type { Folders } from '../folders.ts'
import { reapCaches } from '../workspace/caches.ts'
import { reapHidden } from '../workspace/hidden-folder.ts'
import { removeTree } from '../workspace/trees.ts'
import { isUnsettled, markSettled } from '../workspace/unsettled.ts'
import { revokeGrants } from '../workspace/workspace.ts'
import { cgroupNames, removeCgroups } from './cgroups.ts'
import { trialsIn, unfinishedIn } from './left-behind.ts'
import type { Runtime } from './runtime.ts'

/** What a launcher writes down of its cell, for whoever has to undo it. */
export const Launched = z.object({
  runAs: z.object({ uid: z.int(), gid: z.int() }).nullable(),
  grants: z.array(z.string()).readonly(),
})
export type Launched = z.infer<typeof Launched>
export const launchedFile = 'launched.json'

export type ReapOptions = {
  readonly folders: Folders
  readonly runtime: Runtime
  /** Those that had a folder when nothing new had been made yet. */
  readonly sessions: readonly SessionId[]
  /** Whether there is such a session. There is none for a place that nobody took, or where making or removing it was cut short. */
  readonly isOwned: (session: SessionId) => boolean
  /** Whether a session works in this folder as this user; null for the daemon's own. */
  readonly worksIn: (workspace: string, uid: number | null) => boolean
  readonly log: (message: string) => void
}

/** Every session that has a folder or is marked, whether there is such a session or not. */
export const sessionsOnDisk = ({ state }: Folders): SessionId[] => [
  ...new Set(['sessions', 'windows', 'unsettled'].flatMap((kind) => entriesOf(join(state, kind)).filter(isSession))),
]

/** Removes what nobody owns any more: after a crash, what cells, keepers and launchers left behind. Invariant: nothing is
 *  touched but what lies in the state folder, in control groups of ours or as a trial of ours in the folder for temporary files,
 *  and is named as we name things. */
export async function reapAll({ folders, runtime, sessions, isOwned, worksIn, log }: ReapOptions): Promise<void> {
  const attempt = async (what: string, work: () => Promise<void> | void) => {
    try {
      await work()
    } catch (error) {
      log(`cannot clear ${what} away: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
  await endOrphans()
  // At once, because one that is removed just now is marked anew.
  await attempt('marks of sessions', () => sessions.filter(isOwned).forEach((id) => markSettled(folders, id)))
  const unowned = sessions.filter((each) => !isOwned(each))
  // Windows alone hold no work.
  const nobodys = unowned.filter((id) => isUnsettled(folders, id) || !existsSync(folders.session(id)))
  const unknown = unowned.filter((id) => !nobodys.includes(id))
  if (unknown.length > 0) log(leftAlone(unknown.map(folders.session)))
  for (const id of nobodys)
    await attempt(`what is left of ${id}`, async () => {
      if (!isFree(folders.keeperLock(id))) return
      await reapCells(runtime, [folders.cell(id)])
      await removeCgroups(id)
      for (const each of [folders.session(id), folders.windows(id)]) await removeTree(each)
      markSettled(folders, id)
    })
  for (const name of cgroupNames()) {
    const pid = /^(?:doctor|launcher)-(\d+)$/.exec(name)?.[1]
    const isLeft = pid === undefined ? name.startsWith('attack-') && isOwnerGone(name) : !existsSync(`/proc/${pid}`)
    if (isLeft) await attempt(`the control groups of ${name}`, () => removeCgroups(name))
  }
  await attempt('caches', () => reapCaches(folders.caches))
  await attempt('what was hidden', () => reapHidden(folders.hidden, worksIn))
  await attempt('launched cells', () => reapLaunched(folders, runtime))
  for (const { path, cells } of [...unfinishedIn(folders), ...trialsIn(tmpdir())])
    await attempt(`"${path}"`, async () => {
      await reapCells(runtime, cells)
      if (statSync(path).isDirectory()) await removeTree(path)
      else rmSync(path)
    })
  await attempt('programs of other releases', () => reapRuntimes(folders, runtime))
}

/** What a person is told of folders that may be work. */
function leftAlone(paths: readonly string[]): string {
  const some = paths.slice(0, namedMax).join('; ') + (paths.length > namedMax ? '; …' : '')
  const [folders, they] = paths.length === 1 ? ['session folder belongs', 'it is'] : ['session folders belong', 'they are']
  return `${paths.length} ${folders} to no session of this database; ${they} left alone: ${some}`
}
const namedMax = 10

/** Cells of launchers that were killed. */
export async function reapLaunched(folders: Folders, runtime: Runtime): Promise<void> {
  for (const name of entriesOf(folders.launched)) {
    const base = join(folders.launched, name)
    // One without a lock is just being made, unless whoever made it has ended.
    if (existsSync(join(base, 'lock')) ? !isFree(join(base, 'lock')) : !isOwnerGone(name)) continue
    await reapCells(runtime, [join(base, 'cell')])
    const left = Launched.safeParse(readJson(join(base, launchedFile))).data
    if (left?.runAs != null) await revokeGrants(left.grants, left.runAs)
    await removeTree(base)
  }
}

/** Programs of releases before this one go when no process runs them any more. */
async function reapRuntimes(folders: Folders, runtime: Runtime): Promise<void> {
  const mine = basename(join(runtime.node, '..'))
  const pids = entriesOf('/proc').filter((name) => /^\d+$/.test(name))
  // Where nobody tells what runs, everything may.
  if (pids.length === 0) return
  const used = pids.map((pid) => readText(`/proc/${pid}/cmdline`)).join('\n')
  for (const name of entriesOf(folders.runtime)) {
    if (name !== mine && /^[0-9a-f]{16}$/.test(name) && !used.includes(`${folders.runtime}/${name}/`))
      await removeTree(join(folders.runtime, name))
  }
}

/** A process of its own and of the owner's: what a cell left in these folders is the cell's word. */
export async function reapCells(runtime: Runtime, scratches: readonly string[]): Promise<void> {
  for (const scratch of scratches) {
    const stat = statSync(scratch, { throwIfNoEntry: false })
    if (stat === undefined || entriesOf(scratch).length === 0) continue
    const as = process.getuid?.() === 0 ? { uid: stat.uid, gid: stat.gid } : {}
    await promisify(execFile)(runtime.node, [runtime.reap, scratch], { env: {}, cwd: '/', timeout: reapMs, ...as })
  }
}
const reapMs = 30_000

const isSession = (name: string): name is SessionId => /^ses_[0-9a-z]{16}$/.test(name)

function isFree(path: string): boolean {
  return !existsSync(path) || isUnlocked(path)
}

function entriesOf(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}
function readText(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
function readJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch {
    return null
  }
}
