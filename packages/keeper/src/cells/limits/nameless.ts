import { readdirSync, readlinkSync, statfsSync, statSync } from 'node:fs'
import { setImmediate as breath } from 'node:timers/promises'
import { type ProcessId, readProc, threadsOf } from './processes.ts'

/** Files that processes hold though they have no name any more, so that no walk of a folder finds them. Those of memfd_create(2) and
 *  the memory that processes share never had one. */
export type Nameless = {
  /** By device and inode, each once. */
  readonly files: ReadonlyMap<string, NamelessFile>
  /** Mapped, and open nowhere: how large they are the kernel tells nobody but root (/proc/PID/map_files). */
  readonly unsized: readonly MappedFile[]
  /** Whether there may be more: a descriptor waits in the queue of a socket, which may itself wait in another's; a process does not let
   *  itself be looked at (PR_SET_DUMPABLE, a program that cannot be read); or there were too many to look at in time. */
  readonly isPartial: boolean
}
export type NamelessFile = MappedFile & { readonly bytes: number; readonly fileSystem: number }
export type MappedFile = { readonly device: number; readonly path: string }

/** The keeper has other things to do meanwhile. */
const sliceMs = 5
const lookMsMax = 3_000

/** Looks at each thread: one may have descriptors of its own, and the first may have ended before the others. */
export async function namelessOf(processes: readonly ProcessId[]): Promise<Nameless> {
  const files = new Map<string, NamelessFile>()
  const mapped = new Map<string, MappedFile>()
  let isPartial = false
  const isOver = slices()

  const look = (path: string) => {
    const file = statOf(path)
    if (file?.isFile() === true && file.nlink === 0) {
      const id = `${file.dev}:${file.ino}`
      if (!files.has(id)) files.set(id, { device: file.dev, bytes: file.blocks * 512, ...placeOf(path) })
    }
    return file
  }
  const lookAtMemory = (pid: number, threads: readonly number[]) => {
    for (const thread of threads) {
      const maps = readProc(pid, `task/${thread}/maps`)
      if (maps === null || maps === '') continue // this one has ended before the others
      for (const [id, file] of namelessIn(maps)) mapped.set(id, file)
      return look(`/proc/${pid}/task/${thread}/exe`)
    }
    return null
  }
  const lookAtDescriptors = async (pid: number, thread: number) => {
    const at = `task/${thread}`
    const open = descriptorsOf(`/proc/${pid}/${at}`)
    isPartial ||= open === null
    for (const fd of open ?? []) {
      if (await isOver()) return
      // net/unix/af_unix.c, unix_show_fdinfo: since Linux 5.6.
      if (look(`/proc/${pid}/${at}/fd/${fd}`)?.isSocket())
        isPartial ||= /^scm_fds:\s+[1-9]/m.test(readProc(pid, `${at}/fdinfo/${fd}`) ?? '')
    }
  }

  const all = inAnyOrder(processes).map(({ pid }) => ({ pid, threads: threadsOf(pid) }))
  for (const { pid, threads } of all) {
    if (await isOver()) break
    lookAtMemory(pid, threads)
    for (const thread of threads.slice(0, 1)) await lookAtDescriptors(pid, thread)
  }
  // It is rare that one has descriptors of its own, and they are many, so they come last.
  for (const [pid, thread] of all.flatMap(({ pid, threads }) => threads.slice(1).map((thread) => [pid, thread] as const))) {
    if (await isOver()) break
    await lookAtDescriptors(pid, thread)
  }
  const unsized = [...mapped].flatMap(([id, file]) => (files.has(id) ? [] : [file]))
  return { files, unsized, isPartial: isPartial || (await isOver()) }
}

/** Nobody is to know what a look that takes too long does not come to. */
function inAnyOrder<T>(all: readonly T[]): T[] {
  const from = Math.floor(Math.random() * all.length)
  return [...all.slice(from), ...all.slice(0, from)]
}

/** proc(5), /proc/PID/maps. A name in it has no line break, and one that ends so without being removed is only counted for more. */
export function namelessIn(maps: string): [string, MappedFile][] {
  return [...maps.matchAll(/^\S+ \S+ \S+ ([0-9a-f]+):([0-9a-f]+) (\d+) +(.*) \(deleted\)$/gm)].map(
    ([, major = '', minor = '', inode = '', path = '']) => {
      const device = deviceNumber(parseInt(major, 16), parseInt(minor, 16))
      return [`${device}:${inode}`, { device, path }]
    },
  )
}

/** What memfd_create(2) makes, what processes that are related have mapped together, and System V segments. */
export const isSharedMemory = (path: string) => path.startsWith('/memfd:') || path === '/dev/zero' || isSegment(path)
/** shmget(2). It stays when nobody has it mapped any more. */
export const isSegment = (path: string) => path.startsWith('/SYSV')

/** As stat(2) gives it (linux/kdev_t.h, new_encode_dev). */
export const deviceNumber = (major: number, minor: number) => (minor & 0xff) + major * 0x100 + (minor >>> 8) * 0x100000

/** Says when it is enough, and lets others go on now and then. */
function slices(): () => Promise<boolean> {
  const begun = performance.now()
  let since = begun
  return async () => {
    if (performance.now() - since > sliceMs) {
      await breath()
      since = performance.now()
    }
    return since - begun > lookMsMax
  }
}

/** Null where one may not look; none where it has just ended. */
function descriptorsOf(at: string): string[] | null {
  try {
    return readdirSync(`${at}/fd`)
  } catch (error) {
    return ['EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '') ? null : []
  }
}

function statOf(path: string) {
  try {
    return statSync(path)
  } catch {
    return null // closed since it was listed
  }
}

function placeOf(path: string): { path: string; fileSystem: number } {
  try {
    return { path: readlinkSync(path).replace(/ \(deleted\)$/, ''), fileSystem: statfsSync(path).type }
  } catch {
    return { path: '', fileSystem: 0 }
  }
}
