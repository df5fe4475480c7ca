import { readFound, readFoundStart, listFound } from '@anchorhold/link/found-file'
import { chmodSync, lstatSync, mkdirSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { Failure } from '@anchorhold/protocol/failures'
import type { RepoFilter } from '@anchorhold/protocol/sessions'
import type { Cover } from '../cells/cell.ts'
import { cleanGitConfig, isGitConfig } from './git-config.ts'
import { type HiddenMemory, identityOf, missedMax, type Remembered } from './memory.ts'
import { filterOf, isOthersWork } from './names.ts'
import { type Seen, walk } from './walk.ts'

/** Each cover is a mount, and a workspace with more secrets than this wants another rule. */
const coversMax = 1000
/** How often what a link leads to is followed on, by whatever way. Nobody who works there ties that much together. */
const tiesMax = 10_000
const gitConfigBytesMax = 1024 * 1024

/** Hides what a filter names in a workspace: an empty file or folder is seen in its place (of a tracked one, see `tracked.ts`), and of git's settings a clean copy. What was
 *  hidden once is hidden again wherever it is now. `folder` is for what the cell sees instead; the cell itself must not be able to
 *  write there, nor to `memory`.
 *  Does not hide: what the history of a repository holds, and files that are made after this. */
export async function coverWorkspace(
  workspace: string,
  filter: RepoFilter,
  folder: string,
  memory: HiddenMemory,
): Promise<readonly Cover[]> {
  rmSync(folder, { recursive: true, force: true })
  if (filter === 'none') return []
  const remembered = await memory.read()
  const { hidden: found, missing } = await findHidden(workspace, filter, remembered)
  if (found.size > coversMax)
    throw new Failure('cell_unavailable', `The repository filter hides ${found.size} files, more than the ${coversMax} it can`, {
      hint: 'Name folders instead of files in a filter of your own, or choose "standard"',
    })
  const root = realpathSync(workspace)
  if (found.size > 0 || remembered.length > 0)
    memory.write([...[...found].flatMap(([path, what]) => toRemember(root, path, what)), ...missing])
  if (found.size === 0) return []
  mkdirSync(folder, { recursive: true, mode: 0o755 })
  // Each has its own: git is shown something else in the place of each (`tracked.ts`).
  return [...found].map(([path, what], at) => {
    const by = join(folder, `${typeof what === 'string' ? what : settings}-${at}`)
    if (what === 'folder') mkdirSync(by, { mode: 0o555 })
    else writeFileSync(by, what === 'file' ? '' : what.instead, { mode: 0o444 })
    // What can be run stays so: git would take that for a change.
    if (what === 'file' && isProgram(path)) chmodSync(by, 0o555)
    return { path, by }
  })
}

const settings = 'git-config'
/** Whether this shows clean settings of git, and hides no file. */
export const isSettings = ({ by }: Cover): boolean => basename(by).startsWith(`${settings}-`)

const isProgram = (path: string) => ((lstatSync(path, { throwIfNoEntry: false })?.mode ?? 0) & 0o100) !== 0

/** A file or folder to hide, or a file that something else is to be seen in place of. */
type Hidden = 'file' | 'folder' | { readonly instead: string }

type Found = {
  /** By the real path. */
  readonly hidden: ReadonlyMap<string, Hidden>
  /** What was hidden before and is nowhere now, as it is to be remembered on. */
  readonly missing: readonly Remembered[]
}

type How = {
  /** Leaves folders out, by their paths below the workspace. */
  readonly skips?: (below: string) => boolean
  /** Throws when the look takes too long. */
  readonly goOn?: () => void
}

/** What a filter hides in a workspace, and what it hid before. */
export async function findHidden(
  workspace: string,
  filter: RepoFilter,
  remembered: readonly Remembered[],
  { skips = () => false, goOn = () => {} }: How = {},
): Promise<Found> {
  const found = new Map<string, Hidden>()
  if (filter === 'none') return { hidden: found, missing: [] }
  const root = realpathSync(workspace)
  const { hides, leadsOn, depthMax } = filterOf(filter)
  const isInside = (path: string) => path.startsWith(`${root}/`)

  const hide = (path: string, what: Hidden) => {
    // An empty file hides more than a clean copy does.
    if (typeof found.get(path) !== 'string') found.set(path, what)
  }
  const hideTarget = (link: string) => {
    // The link itself says nothing; what it leads to is hidden, under whatever name, if the cell can see it at all.
    const target = targetOf(link)
    if (target !== null && isInside(target.path)) hide(target.path, target.kind)
  }
  const hideSettings = async (path: string) => {
    const instead = await cleaned(path, root)
    if (instead !== null) hide(path, { instead })
  }
  let ties = 0
  /** A link in the place of a folder that a pattern names: what is behind it counts under the link's name too, for as many names as a
   *  pattern has. Links may lead round and round, and a folder is looked at anew by every way that leads there, since its names count under
   *  those before them: where the ways are too many, no cell starts. */
  const hideBehind = (link: string, below: string, depth: number) => {
    const target = targetOf(link)
    if (target?.kind !== 'folder' || !isInside(target.path)) return
    if (depth > 1 && ++ties > tiesMax) throw tangled(target.path.slice(root.length + 1))
    for (const { name } of listFound(target.path) ?? []) {
      const inner = `${below}/${name}`
      if (hides(inner)) hideTarget(`${target.path}/${name}`)
      else if (depth < depthMax && leadsOn(name)) hideBehind(`${target.path}/${name}`, inner, depth + 1)
    }
  }
  let lookedEverywhere = true
  const closed = (folder: string) => {
    if (!isInside(folder)) throw cannotLook()
    lookedEverywhere = false
    hide(folder, 'folder')
  }
  const hideAround = (folder: string, isWanted: boolean) => {
    if (isWanted) closed(folder)
    return !isWanted
  }

  await walk(root, {
    ...{ closed, goOn },
    nameless: (folder, below) => hideAround(folder, hides(below)),
    visit({ path, below, entry, inGit }) {
      if ((inGit && /^config(?:\.worktree)?$/.test(entry.name)) || isGitConfig(below)) {
        const target = entry.isSymbolicLink() ? targetOf(path) : { path, kind: entry.isFile() ? 'file' : 'folder' }
        const goesOn = entry.isDirectory()
        return target?.kind === 'file' && isInside(target.path) ? hideSettings(target.path).then(() => goesOn) : goesOn
      }
      // Branches have names of their own, and what moved in there since is remembered.
      if (inGit && ['objects', 'refs', 'logs'].includes(entry.name)) return false
      if (!hides(below)) {
        if (entry.isSymbolicLink() && leadsOn(entry.name)) hideBehind(path, below, 1)
        return !skips(below)
      }
      if (entry.isSymbolicLink()) hideTarget(path)
      else if (entry.isDirectory()) hide(path, 'folder')
      else if (entry.isFile() && mayBePublic(below))
        return isPublic(path, root).then((is) => {
          if (!is) hide(path, 'file')
          return false
        })
      else if (entry.isFile()) hide(path, 'file')
      return false
    },
  })

  for (const { id, below, kind } of remembered) {
    const path = `${root}/${below}`
    if (found.has(path) || identityOf(path)?.id !== id || targetOf(path)?.path !== path) continue
    if (kind === 'git') await hideSettings(path)
    else hide(path, kind)
  }

  // The same file may be there under another name, and what was hidden before in another place.
  const known = [...found.keys()].flatMap((path) => identityOf(path) ?? [])
  const ids = new Set(known.map(({ id }) => id))
  const linked = new Set(known.filter(({ links }) => links > 1).map(({ id }) => id))
  const moved = remembered.filter(({ id }) => !ids.has(id))
  if (linked.size === 0 && moved.length === 0) return { hidden: withoutInner(found), missing: [] }
  const wanted = new Map(moved.map((one) => [one.id, one]))
  const places = new Map(moved.map((one) => [placeOf(one), one]))
  const again = new Set<Remembered>()
  const folders = new Map([['', identityOf(root)?.id ?? '']])

  await walk(root, {
    ...{ closed, goOn },
    nameless: (folder, _, path) => hideAround(folder, wanted.has(identityOf(path)?.id ?? '')),
    visit({ path, below, entry }: Seen) {
      if (!entry.isFile() && !entry.isDirectory()) return false
      const { id } = identityOf(path) ?? { id: '' }
      if (entry.isDirectory()) folders.set(below, id)
      const parent = folders.get(below.slice(0, Math.max(0, below.lastIndexOf('/')))) ?? ''
      const one = wanted.get(id) ?? places.get(placeOf({ parent, name: entry.name }))
      if (one !== undefined) again.add(one)
      if (one?.kind === 'git') return hideSettings(path).then(() => true)
      if (one !== undefined || (entry.isFile() && linked.has(id))) hide(path, entry.isFile() ? 'file' : 'folder')
      return true
    },
  })
  // What may be behind a closed door is not forgotten.
  const missed = lookedEverywhere ? 1 : 0
  const missing = moved.flatMap((one) =>
    again.has(one) || one.missed + missed > missedMax ? [] : [{ ...one, missed: one.missed + missed }],
  )
  return { hidden: withoutInner(found), missing }
}

const placeOf = ({ parent, name }: Pick<Remembered, 'parent' | 'name'>) => `${parent} ${name.toLowerCase()}`

function toRemember(root: string, path: string, what: Hidden): Remembered[] {
  const [own, parent] = [identityOf(path), identityOf(dirname(path))]
  if (own === null || parent === null) return []
  const name = path.slice(path.lastIndexOf('/') + 1)
  const kind = typeof what === 'string' ? what : 'git'
  return [{ id: own.id, parent: parent.id, name, kind, below: path.slice(root.length + 1), missed: 0 }]
}

/** What lies in a hidden folder is hidden with it. */
const withoutInner = (found: ReadonlyMap<string, Hidden>) => new Map([...found].filter(([path]) => !isBelowOne(path, found)))

function isBelowOne(path: string, found: ReadonlyMap<string, Hidden>): boolean {
  for (let end = path.lastIndexOf('/'); end > 0; end = path.lastIndexOf('/', end - 1))
    if (found.get(path.slice(0, end)) === 'folder') return true
  return false
}

function cannotLook(): Failure {
  return new Failure('cell_unavailable', 'The repository filter cannot hide what lies in a folder that it cannot look into', {
    hint: 'Look for names that are no UTF-8 at the top of the workspace, and give them other ones',
  })
}

function tangled(folder: string): Failure {
  return new Failure(
    'cell_unavailable',
    `The repository filter cannot find out what is behind the links in "${folder}": they lead to one another in too many ways`,
    { hint: 'Remove those of them that lead to folders of the workspace' },
  )
}

function targetOf(link: string): { readonly path: string; readonly kind: 'file' | 'folder' } | null {
  try {
    const path = realpathSync(link)
    const stat = lstatSync(path)
    return stat.isFile() || stat.isDirectory() ? { path, kind: stat.isFile() ? 'file' : 'folder' } : null
  } catch {
    return null // it leads nowhere
  }
}

/** Empty for what is too large or cannot be read: its owner may let the cell read it later. So is what a link leads to by now: the cell
 *  must not be shown what lies outside. */
async function cleaned(path: string, root: string): Promise<string | null> {
  const text = await readFound(path, gitConfigBytesMax, { below: root }).catch(() => null)
  return text === null ? '' : cleanGitConfig(text)
}

/** Packages bring the certificates that they trust, and without them reach nobody. */
const mayBePublic = (below: string) => /\.pem$/i.test(below) && isOthersWork(below)

async function isPublic(path: string, root: string): Promise<boolean> {
  const start = await readFoundStart(path, publicBytes, { below: root }).catch(() => null)
  if (start === null || start.length === publicBytes) return false
  return start.includes('-----BEGIN CERTIFICATE-----') && !start.includes('PRIVATE KEY')
}
const publicBytes = 1024 * 1024
