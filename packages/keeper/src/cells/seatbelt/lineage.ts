import { spawnSync } from 'node:child_process'

/** What a cell without a namespace for its processes has started, as far as it can be told from outside: children, their children, and
 *  what stays in a group that one of them leads. It is looked up again and again, because one whose parents have ended is nobody's
 *  child any more. Does not find: one that leaves both its group and its parents between two looks. */
export interface Lineage {
  /** Everything that starts from this process on. */
  add(pid: number): void
  /** It has ended: its number may be anybody's from now on. What it left behind is still counted. */
  leave(pid: number): void
  /** Those that live, as of now. */
  look(): readonly Kin[]
}

export type Kin = { readonly pid: number; readonly startedAt: string; readonly residentBytes: number }

export function lineage(list: () => readonly Listed[] = listProcesses): Lineage {
  /** By number, and since when: a number is given away again. */
  const known = new Map<number, string>()
  const leaders = new Set<number>()
  function look(): readonly Kin[] {
    const living = list()
    for (const [pid, startedAt] of known) if (!living.some((each) => isSame(each, pid, startedAt))) known.delete(pid)
    for (let before = -1; before !== known.size;) {
      before = known.size
      for (const each of living) {
        const isKin =
          [each.pid, each.group].some((id) => leaders.has(id)) || [each.parent, each.group].some((id) => known.has(id))
        if (isKin) known.set(each.pid, each.startedAt)
      }
    }
    return living.filter(({ pid }) => known.has(pid))
  }
  return {
    add: (pid) => void leaders.add(pid),
    leave(pid) {
      look()
      leaders.delete(pid)
    },
    look,
  }
}

const isSame = (each: Listed, pid: number, startedAt: string) => each.pid === pid && each.startedAt === startedAt

export type Listed = Kin & { readonly parent: number; readonly group: number }

/** By ps(1), as macOS has no /proc. A zombie runs nothing and is left out. */
function listProcesses(): Listed[] {
  const { stdout } = spawnSync('/bin/ps', ['-axo', 'pid=,ppid=,pgid=,state=,rss=,lstart='], {
    env: { LC_ALL: 'C', PATH: '/usr/bin:/bin' },
    encoding: 'utf8',
    maxBuffer: listBytesMax,
  })
  return stdout.split('\n').flatMap((line) => {
    const [pid, parent, group, state = '', rss, ...started] = line.trim().split(/\s+/)
    if (started.length === 0 || state.startsWith('Z')) return []
    return [
      {
        ...{ pid: Number(pid), parent: Number(parent), group: Number(group) },
        residentBytes: Number(rss) * 1024,
        startedAt: started.join(' '),
      },
    ]
  })
}
const listBytesMax = 64 * 2 ** 20
