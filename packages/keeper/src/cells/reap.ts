import { readFound } from '@anchorhold/link/found-file'
import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { lstatSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { removeContainers, servedEngines } from './container/served-engine.ts'
import { isGone, type ProcessId, signalPid, treeOf, until } from './limits/processes.ts'

/** Each command of a cell has two. */
const processesMax = 4096

/** What a driver writes down of a cell in the cell's own folder, so that whoever finds it later can end what is left of it. */
const Lease = z.object({
  rung: z.string().max(40),
  processes: z.array(z.object({ pid: z.int().min(2), startedAt: z.string().max(40) })).max(processesMax),
  /** Whose daemon made a container for it, where one did. */
  engine: z.enum(['docker', 'podman-rootful']).optional(),
})
type Lease = Readonly<z.infer<typeof Lease>>

const fileName = 'cell.json'
const leaseBytesMax = 512 * 1024
const endTimeoutMs = 10_000

/** Root writes it in a folder of the cell's user's, who may put a link in its place. */
export function writeLease(scratch: string, lease: Lease): void {
  const fresh = join(scratch, `${fileName}.${randomBytes(6).toString('hex')}`)
  writeFileSync(fresh, JSON.stringify(lease), { mode: 0o644, flag: 'wx' })
  renameSync(fresh, join(scratch, fileName))
}

/** When the cell has ended. */
export function removeLease(scratch: string): void {
  rmSync(join(scratch, fileName), { force: true })
}

/** Ends what is left of the cell whose driver kept its things in this folder, and empties the folder. It may be done twice, and
 *  to a folder that no cell was ever in. Invariant: no process is touched but those that the lease names by number and start
 *  and that belong to the folder's owner, with what descends from them; no container but those that are labelled with the folder; and no file outside the folder.
 *  @param at leads to the folder, where that is not to be looked up by its name again */
export async function reapCell(scratch: string, engines = servedEngines, at = scratch): Promise<void> {
  const folder = lstatSync(at, { throwIfNoEntry: false })
  if (folder === undefined || !folder.isDirectory()) return
  const lease = await readLease(at)
  const left = (lease?.processes ?? []).filter((each) => !isGone(each) && ownerOf(each) === folder.uid)
  const all = [...left, ...treeOf(left.map(({ pid }) => pid))]
  for (const { pid } of left) signalPid(pid, 'SIGKILL')
  await until('what is left of a cell has ended', endTimeoutMs, () => all.every(isGone))
  if (lease?.engine !== undefined) await removeContainers(engines[lease.engine], scratch)
  emptyScratch(at)
}

/** Removes everything in the folder, also what an engine gave to another user of the session's own range; follows no link. */
export function emptyScratch(scratch: string): void {
  try {
    remove(scratch)
  } catch {
    // As root of a namespace that maps the range: nobody else of this user's may.
    spawnSync('unshare', ['--user', '--map-root-user', '--map-auto', '--', 'find', scratch, '-mindepth', '1', '-delete'], {
      env: { PATH: '/usr/bin:/bin:/usr/sbin:/sbin' },
      stdio: 'ignore',
    })
    remove(scratch)
  }
}

function remove(folder: string): void {
  for (const name of readdirSync(folder)) rmSync(join(folder, name), { recursive: true, force: true })
}

/** The file may be missing or cut off, and the cell's user may have put anything in its place. */
async function readLease(scratch: string): Promise<Lease | null> {
  try {
    return Lease.parse(JSON.parse(await readFound(join(scratch, fileName), leaseBytesMax)))
  } catch {
    return null
  }
}

const ownerOf = ({ pid }: ProcessId) => statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid ?? null
