import { spawnSync } from 'node:child_process'
import { lchownSync, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** What the host shows of its processes and files, for tests that look at a running product from outside. */
export type HostProcess = { readonly pid: number; readonly parent: number; readonly argv: string; readonly startedAt: string }

/** Whether this machine has a program. As root the set-up installs what tests want; an ordinary user's leave out what is not there. */
export const has = (program: string): boolean => spawnSync('which', [program]).status === 0

export function processes(): HostProcess[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, 'latin1')
        // The name of the program may hold spaces and brackets: the fields begin behind its last one.
        const [state, parent, ...rest] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
        if (state === 'Z' || state === 'X') return []
        const argv = readFileSync(`/proc/${name}/cmdline`, 'latin1').replaceAll('\0', ' ')
        return [{ pid: Number(name), parent: Number(parent), argv, startedAt: rest[17] ?? '' }]
      } catch {
        return [] // it has ended in between
      }
    })
}

/** The processes of an installation, those in its cells included, also where nobody is left whose children they are. */
export function processesOf(state: string, which: (one: HostProcess) => boolean = () => true): HostProcess[] {
  const every = processes()
  const isNamed = ({ argv }: HostProcess) => new RegExp(`${state}(/| |$)`).test(argv)
  const found = every.filter((one) => (isNamed(one) || sees(one.pid, `${state}/`)) && which(one))
  const below = (parent: number): HostProcess[] => every.flatMap((one) => (one.parent === parent ? [one, ...below(one.pid)] : []))
  return [...new Map([...found, ...found.flatMap(({ pid }) => below(pid))].map((one) => [one.pid, one])).values()]
}

/** The keepers that tend a session, or the one of this session, each with all that lives in its cell. */
export const keepersOf = (state: string, session = ''): HostProcess[] =>
  processesOf(state, ({ pid, argv }) => argv.includes('/keeper.mjs') && holds(pid, `${state}/sessions/${session}`))

/** Whether something below a folder is mounted where a process is, or held by one that is only being made. */
function sees(pid: number, prefix: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/mountinfo`, 'latin1').includes(` ${prefix}`) || holds(pid, `${prefix}sessions/`)
  } catch {
    return false
  }
}
/** Whether a process has a file open whose path begins so. */
function holds(pid: number, prefix: string): boolean {
  try {
    return readdirSync(`/proc/${pid}/fd`).some((fd) => linkOf(`/proc/${pid}/fd/${fd}`).startsWith(prefix))
  } catch {
    return false
  }
}
function linkOf(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}

/** Those of them that live: a number that another process got since does not count. */
export function stillAlive(list: readonly HostProcess[]): HostProcess[] {
  const now = new Map(processes().map((one) => [one.pid, one.startedAt]))
  return list.filter(({ pid, startedAt }) => now.get(pid) === startedAt)
}

/** All files below a folder, and what each holds. Whatever goes while they are read is not there. */
export function filesBelow(folder: string, skipped?: string): { readonly path: string; readonly text: string }[] {
  return unlessGone(() => readdirSync(folder, { withFileTypes: true }), []).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return path === skipped ? [] : filesBelow(path, skipped)
    return entry.isFile() ? unlessGone(() => [{ path, text: readFileSync(path, 'latin1') }], []) : []
  })
}
function unlessGone<T>(read: () => T, otherwise: T): T {
  try {
    return read()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return otherwise
  }
}

export function giveTo(path: string, user: { readonly uid: number; readonly gid: number }): void {
  lchownSync(path, user.uid, user.gid)
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    if (entry.isDirectory()) giveTo(join(path, entry.name), user)
    else lchownSync(join(path, entry.name), user.uid, user.gid)
  }
}

export const ownerOf = (path: string) => statSync(path).uid
