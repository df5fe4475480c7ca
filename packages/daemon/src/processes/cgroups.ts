import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'

/** Makes, as root, the control group folders in which `uid` may then make groups of its own; none where that cannot be.
 *  The result is what a `CellSpec` takes as `cgroups`. */
export function delegateCgroups(name: string, { uid, gid }: { readonly uid: number; readonly gid: number }): string[] {
  return cgroupMounts(readFileSync('/proc/self/mountinfo', 'latin1')).flatMap((mount) => {
    const parent = join(mount.path, parentGroup)
    const folder = join(parent, name)
    try {
      if (mount.version === 2) shareControllers(mount.path)
      mkdirSync(parent, { recursive: true })
      // Users pass through it to what is theirs; this process may have a umask that lets nobody.
      chmodSync(parent, 0o755)
      if (mount.version === 2) shareControllers(parent)
      mkdirSync(folder, { recursive: true })
      if (mount.version === 2) mkdirSync(join(folder, ownGroup), { recursive: true })
      // Not the limits of the folder itself: those stay root's.
      for (const each of [folder, join(folder, ownGroup)]) {
        for (const file of ['', ...handedFiles]) if (existsSync(join(each, file))) chownSync(join(each, file), uid, gid)
      }
      return [folder]
    } catch {
      return [] // read-only or held by someone else; the limits then say that they are not by control group
    }
  })
}

/** Moves a process of that user into the folders, as root. Version 2 lets a user move processes only from within. */
export function enterCgroups(folders: readonly string[], pid: number): void {
  for (const folder of folders) {
    const own = join(folder, ownGroup, 'cgroup.procs')
    if (existsSync(own)) writeFileSync(own, String(pid))
  }
}

/** The folders that were made under this name, here or by a daemon before. */
export function cgroupsOf(name: string): string[] {
  const mounts = cgroupMounts(readFileSync('/proc/self/mountinfo', 'latin1'))
  return mounts.map(({ path }) => join(path, parentGroup, name)).filter((folder) => existsSync(folder))
}

/** The names under which folders were made, here or by others of this machine. */
export function cgroupNames(): string[] {
  const mounts = cgroupMounts(readFileSync('/proc/self/mountinfo', 'latin1'))
  const names = mounts.flatMap(({ path }) => {
    const parent = join(path, parentGroup)
    return existsSync(parent) ? readdirSync(parent, { withFileTypes: true }).filter((entry) => entry.isDirectory()) : []
  })
  return [...new Set(names.map(({ name }) => name))]
}

/** Takes the folders away again, with the groups that were made in them. One that still holds a process stays: its
 *  processes are ended first, and whoever asks next finds it empty. */
export function withdrawCgroups(folders: readonly string[]): void {
  for (const each of folders.flatMap(withInner)) {
    try {
      for (const pid of pidsIn(readFileSync(join(each, 'cgroup.procs'), 'latin1'))) endProcess(pid)
      rmdirSync(each)
    } catch {
      // Not empty yet, or gone in between.
    }
  }
}

/** From the text of a cgroup.procs. Zero stands there for a process of another pid namespace; to a signal it means our own whole group. */
const pidsIn = (procs: string): number[] =>
  procs
    .split('\n')
    .map(Number)
    .filter((pid) => pid > 0)

/** A group with those that a keeper or an engine has made in it, the innermost first; none when it is gone. */
function withInner(group: string): string[] {
  try {
    const inner = readdirSync(group, { withFileTypes: true }).filter((entry) => entry.isDirectory())
    return [...inner.flatMap(({ name }) => withInner(join(group, name))), group]
  } catch {
    return [] // it was removed in between
  }
}

/** The same for everything under this name, until nothing of it is left. What does not end in time is left to the next start. */
export async function removeCgroups(name: string): Promise<void> {
  for (let tries = 0; tries < 100; tries++) {
    const folders = cgroupsOf(name)
    if (folders.length === 0) return
    withdrawCgroups(folders)
    await wait(20)
  }
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended.
  }
}

/** Where the mounted controllers that cells use are, from the text of a /proc/self/mountinfo (proc(5)). */
export function cgroupMounts(mountinfo: string): CgroupMount[] {
  const mounts = mountinfo.split('\n').flatMap((line): CgroupMount[] => {
    const [before = '', after = ''] = line.split(' - ')
    const path = before.split(' ')[4] ?? ''
    const [type, , options = ''] = after.split(' ')
    if (type === 'cgroup2') return [{ path, version: 2 }]
    const isWanted = options.split(',').some((option) => wantedControllers.includes(option))
    return type === 'cgroup' && isWanted ? [{ path, version: 1 }] : []
  })
  // On a hybrid machine, what version 1 has taken is not to be had from version 2.
  const first = mounts.filter(({ version }) => version === 1)
  return first.length > 0 ? first : mounts
}

export type CgroupMount = { readonly path: string; readonly version: 1 | 2 }

const parentGroup = 'anchorhold'
/** The keeper's own place: in version 2 a group that shares its controllers may hold no process itself. */
const ownGroup = 'keeper'
const wantedControllers = ['memory', 'pids', 'cpu']
/** https://docs.kernel.org/admin-guide/cgroup-v2.html#model-of-delegation */
const handedFiles = ['cgroup.procs', 'cgroup.threads', 'cgroup.subtree_control']

function shareControllers(folder: string): void {
  for (const controller of wantedControllers) {
    try {
      writeFileSync(join(folder, 'cgroup.subtree_control'), `+${controller}`)
    } catch {
      // This controller is not there, or the folder holds processes; what can be limited shows when it is read back.
    }
  }
}
