// What Anchorhold keeps on the disk. A program of its own: it reads the database, which the command line otherwise does not.
import { folders as foldersOf } from '@anchorhold/daemon/folders'
import { launchedLeftIn, trialsIn, unfinishedIn } from '@anchorhold/daemon/processes/left-behind'
import { readStored } from '@anchorhold/daemon/store/sqlite/from-beside'
import { lstatSync, readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export type DiskReport = {
  readonly state: string
  readonly parts: readonly {
    readonly name: string
    readonly bytes: number
    readonly what: string
    readonly free: string | null
  }[]
  /** The largest first. */
  readonly sessions: readonly { readonly id: string; readonly name: string; readonly archived: boolean; readonly bytes: number }[]
  /** What no session owns, and no process that lives. */
  readonly unowned: readonly { readonly path: string; readonly bytes: number }[]
}

const sessionsShown = 10

export function diskReport(state: string): DiskReport {
  const folders = foldersOf(state)
  const stored = readStored(folders.database, (store) => store.sessions()) ?? []
  const rows = new Map(stored.map(({ id, ...row }) => [id, row]))
  const sizes = new Map(entriesOf(join(state, 'sessions')).map((id) => [id, sizeOf(join(state, 'sessions', id))]))
  const owned = [...sizes].flatMap(([id, bytes]) => {
    const row = rows.get(id)
    return row === undefined ? [] : [{ id, ...row, bytes }]
  })
  const withoutSession = ['sessions', 'windows'].flatMap((kind) =>
    entriesOf(join(state, kind))
      .filter((id) => !rows.has(id))
      .map((id) => ({ path: join(state, kind, id), bytes: sizeOf(join(state, kind, id)) })),
  )
  const left = [...unfinishedIn(folders), ...launchedLeftIn(folders), ...trialsIn(tmpdir())]
  const unowned = [...withoutSession, ...left.map(({ path }) => ({ path, bytes: sizeOf(path) }))]
  const total = (list: readonly { readonly bytes: number }[]) => list.reduce((sum, { bytes }) => sum + bytes, 0)
  const known = new Set(['sessions', 'windows', 'runtime', 'images', 'caches', 'homes', 'compiled', 'gate', 'rehearsal'])
  const files = entriesOf(state).filter((name) => !known.has(name))
  const sumOf = (names: readonly string[]) => names.reduce((sum, name) => sum + sizeOf(join(state, name)), 0)
  return {
    state,
    parts: [
      {
        name: 'sessions',
        bytes: total(owned),
        what: 'workspaces, homes and outboxes of sessions',
        free: 'anchorhold archive SESSION, then anchorhold purge SESSION --confirm SESSION',
      },
      {
        name: 'database',
        bytes: sumOf(files.filter((name) => name.startsWith('anchorhold.db'))),
        what: 'every event',
        free: null,
      },
      { name: 'images', bytes: sumOf(['images']), what: 'roots of containers and machines', free: 'anchorhold image rm NAME' },
      {
        name: 'caches',
        bytes: sumOf(['caches']),
        what: 'downloads that sessions of one folder share',
        free: 'anchorhold cache clear',
      },
      { name: 'runtime', bytes: sumOf(['runtime']), what: 'programs that cells run, by release', free: null },
      {
        name: 'homes',
        bytes: sumOf(['homes']),
        what: 'what anchorhold claude remembers of each folder',
        free: `rm -r ${state}/homes`,
      },
      {
        name: 'logs',
        bytes: sumOf(files.filter((name) => name.endsWith('.log'))),
        what: 'of daemon, gate and keepers',
        free: null,
      },
      {
        name: 'the rest',
        bytes: sumOf([
          'gate',
          'rehearsal',
          'compiled',
          'windows',
          ...files.filter((name) => !/^anchorhold\.db|\.log$/.test(name)),
        ]),
        what: "the gate's own, compiled programs, windows",
        free: null,
      },
    ],
    sessions: owned.toSorted((a, b) => b.bytes - a.bytes).slice(0, sessionsShown),
    unowned,
  }
}

function entriesOf(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

/** What a file or folder takes on the disk, following no link and counting a file with several names once. */
function sizeOf(path: string, seen: Set<string> = new Set()): number {
  const stat = lstatSync(path, { throwIfNoEntry: false })
  if (stat === undefined) return 0
  if (!stat.isDirectory()) {
    const id = `${stat.dev}:${stat.ino}`
    if (stat.nlink > 1 && seen.has(id)) return 0
    seen.add(id)
    return stat.blocks * 512
  }
  return entriesOf(path).reduce((sum, name) => sum + sizeOf(join(path, name), seen), stat.blocks * 512)
}
