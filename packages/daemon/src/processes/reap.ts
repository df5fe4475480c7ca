import { isLocked, takeLock, takeLockThere } from '@anchorhold/link/lock'
import { isOwnerGone, ownerMark } from '@anchorhold/link/owner'
import type { SessionId } from '@anchorhold/protocol/ids'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, lstatSync, readdirSync, readFileSync, renameSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import type { Folders } from '../folders.ts'
import { reapCaches } from '../workspace/caches.ts'
import { type Granted, grantedIn, readGranted } from '../workspace/granted.ts'
import { type HeldFolder, holdEntry } from '../workspace/held-folder.ts'
import { reapHidden } from '../workspace/hidden-folder.ts'
import { removeTree, removeTrees } from '../workspace/trees.ts'
import { isUnsettled, markSettled } from '../workspace/unsettled.ts'
import { revokeGrants, undoFolder } from '../workspace/workspace.ts'
import { cgroupNames, removeCgroups } from './cgroups.ts'
import { trialsIn, unfinishedIn } from './left-behind.ts'
import type { Runtime } from './runtime.ts'

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
  const attempt = attempting(log)
  // A fork may have the same.
  const isLeft = ({ runAs: { uid }, grants }: Granted) => !worksIn(grants.at(-1) ?? '', uid)
  // At once, because one that is removed just now is marked anew.
  await attempt('marks of sessions', () => sessions.filter(isOwned).forEach((id) => markSettled(folders, id)))
  const unowned = sessions.filter((each) => !isOwned(each))
  // Windows alone hold no work.
  const nobodys = unowned.filter((id) => isUnsettled(folders, id) || !existsSync(folders.session(id)))
  const unknown = unowned.filter((id) => !nobodys.includes(id))
  if (unknown.length > 0) log(leftAlone(unknown.map(folders.session)))
  for (const id of nobodys)
    await attempt(`what is left of ${id}`, async () => {
      if (isLocked(folders.keeperLock(id))) return
      await reapCells(runtime, [folders.cell(id)])
      await removeCgroups(id)
      const granted = await readGranted(folders.unsettled(id))
      if (granted !== null && isLeft(granted)) await revokeGrants(granted.grants, granted.runAs)
      await removeTrees([folders.session(id), folders.windows(id)])
      markSettled(folders, id)
    })
  for (const name of cgroupNames()) {
    const pid = /^(?:doctor|launcher)-(\d+)$/.exec(name)?.[1]
    const isOver = pid === undefined ? name.startsWith('attack-') && isOwnerGone(name) : !existsSync(`/proc/${pid}`)
    if (isOver) await attempt(`the control groups of ${name}`, () => removeCgroups(name))
  }
  await attempt('caches', () => reapCaches(folders.caches))
  await attempt('what was hidden', () => reapHidden(folders.hidden, worksIn))
  await reapLaunched(folders, runtime, log)
  for (const { path, cells } of [...unfinishedIn(folders), ...trialsIn(tmpdir())])
    await attempt(`"${path}"`, async () => {
      await reapCells(runtime, cells)
      await removeTree(path)
    })
  await attempt('programs of other releases', () => reapRuntimes(folders, runtime))
}

/** Tries one thing and goes on to the next, whatever becomes of it. */
const attempting = (log: ReapOptions['log']) => async (what: string, work: () => Promise<void> | void) => {
  try {
    await work()
  } catch (error) {
    log(`cannot clear ${what} away: ${error instanceof Error ? error.message : String(error)}`)
  }
}

/** What a person is told of folders that may be work. */
function leftAlone(paths: readonly string[]): string {
  const some = paths.slice(0, namedMax).join('; ') + (paths.length > namedMax ? '; …' : '')
  const [folders, they] = paths.length === 1 ? ['session folder belongs', 'it is'] : ['session folders belong', 'they are']
  return `${paths.length} ${folders} to no session of this database; ${they} left alone: ${some}`
}
const namedMax = 10

/** Cells of launchers that were killed. */
export async function reapLaunched(folders: Folders, runtime: Runtime, log: ReapOptions['log']): Promise<void> {
  for (const name of entriesOf(folders.launched)) {
    const base = join(folders.launched, name)
    // Another launcher may be at the same thing.
    if (!existsSync(base)) continue
    const file = join(base, 'lock')
    // One without a lock is just being made or removed, unless whoever did so has ended.
    const isThere = existsSync(file)
    if (!isThere && !isOwnerGone(name)) continue
    await attempting(log)(`the launched cell "${base}"`, async () => {
      const lock = isThere ? takeLockThere(file) : takeLock(file)
      if (lock === null) return
      try {
        await reapCells(runtime, [join(base, 'cell')])
        // From here on it is this process that it speaks of: its lock goes somewhere in the middle, and nobody else is to begin then.
        const going = join(folders.launched, `${ownerMark()}-${randomBytes(4).toString('hex')}`)
        renameSync(base, going)
        await undoFolder(going, grantedIn(going))
      } finally {
        lock.release()
      }
    })
  }
}

/** Programs of releases before this one go when no process runs them any more. */
async function reapRuntimes(folders: Folders, runtime: Runtime): Promise<void> {
  const mine = basename(join(runtime.node, '..'))
  const pids = entriesOf('/proc').filter((name) => /^\d+$/.test(name))
  // Where nobody tells what runs, everything may.
  if (pids.length === 0) return
  const used = pids.map((pid) => readText(`/proc/${pid}/cmdline`)).join('\n')
  const isLeft = (name: string) => name !== mine && /^[0-9a-f]{16}$/.test(name) && !used.includes(`${folders.runtime}/${name}/`)
  await removeTrees(
    entriesOf(folders.runtime)
      .filter(isLeft)
      .map((name) => join(folders.runtime, name)),
  )
}

/** A process of its own and of the owner's: what a cell left in these folders is the cell's word. It begins in the folder that was
 *  looked at here, whatever has got that folder's name by then. */
export async function reapCells(runtime: Runtime, scratches: readonly string[]): Promise<void> {
  for (const scratch of scratches) {
    await using folder = await holdEntry(scratch)
    if (folder === null || entriesOf(folder.at).length === 0) continue
    const as = process.getuid?.() === 0 ? await ownerOf(folder) : {}
    if (as === null) continue
    await promisify(execFile)(runtime.node, [runtime.reap, scratch], { env: {}, cwd: folder.at, timeout: reapMs, ...as })
  }
}
const reapMs = 30_000

/** Whom root has a folder cleared by; null where it is root's own, in which no cell was. The folder above says whose it is: root has given
 *  that to the session's user or kept it, and only root gives a folder away. Invariant: never root, and no user but that one. */
async function ownerOf({ path, at }: HeldFolder): Promise<{ readonly uid: number; readonly gid: number } | null> {
  const { uid, gid } = await stat(at)
  if (uid === 0) return null
  const above = lstatSync(dirname(path)).uid
  if (above !== 0 && above !== uid)
    throw new Error(`"${path}" belongs to the user ${uid}, and the folder that it is in to ${above}`)
  return { uid, gid }
}

const isSession = (name: string): name is SessionId => /^ses_[0-9a-z]{16}$/.test(name)

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
