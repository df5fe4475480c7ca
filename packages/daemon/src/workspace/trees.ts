import { Failure } from '@anchorhold/protocol/failures'
import { type ChildProcess, spawn } from 'node:child_process'
import { constants } from 'node:fs'
import { lchown, lstat, open, readdir } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import type { HeldFolder } from './held-folder.ts'

type User = { readonly uid: number; readonly gid: number }

/** A copy that follows no link and takes no owner along, read as one user and written as another. An agent may be at work
 *  in the tree: a folder that it swaps for a link under way must not lead the copy out of the cell, so it is done by tar,
 *  which opens every name relative to the folder above it and without following links (tar 1.24, "symbolic link races"). */
export async function copyTree(from: HeldFolder, to: string, { reader, writer, without = [] }: Copying): Promise<void> {
  const options = { cwd: '/', env: { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C' } }
  const read = spawn('tar', ['--sparse', ...without.map((name) => `--exclude=${name}`), '-cf', '-', '.'], {
    ...options,
    ...reader,
    // A child enters it before it becomes another user.
    cwd: from.at,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const write = spawn('tar', ['-C', to, '-xpf', '-', '--no-same-owner'], {
    ...options,
    ...writer,
    stdio: ['pipe', 'ignore', 'pipe'],
  })
  // Should one of them end early, what it said tells why.
  const copied = pipeline(read.stdout, write.stdin).catch(() => {})
  const [reading, writing] = await Promise.all([outcome(read), outcome(write), copied])
  // 1 says that something changed or went while it was read.
  if (writing.code === 0 && (reading.code === 0 || reading.code === 1)) return
  const why = (writing.code === 0 ? reading : writing).said.split('\n')[0]!.slice(0, 300)
  throw new Failure('workspace_refused', `Cannot copy "${from.path}": ${why}`, {
    hint: 'Look at the free space and who may read it',
  })
}

type Copying = {
  readonly reader: User | null
  readonly writer: User | null
  /** Names that are left out, wherever they are. */
  readonly without?: readonly string[]
}

async function outcome(child: ChildProcess): Promise<{ readonly code: number | null; readonly said: string }> {
  const exited = new Promise<number | null>((resolve, reject) => child.once('error', reject).once('close', resolve))
  const [code, said] = await Promise.all([exited, child.stderr === null ? '' : text(child.stderr)])
  return { code, said }
}

/** Removes everything below, which somebody else may be doing too. Whoever worked there may have taken the right to write away, without
 *  which an ordinary user cannot empty a folder, may have given names that are no text, and have gone deeper than a path can name.
 *  Nobody works there any more. */
export async function removeTree(path: string): Promise<void> {
  if ((await lstat(path).catch(unlessSwapped)) === null) return
  let why = ''
  for (const [program, ...args] of await waysToRemove(path)) {
    const { code, said } = await outcome(
      spawn(program, [...args, path], {
        cwd: '/',
        env: { PATH: '/usr/bin:/bin', LC_ALL: 'C' },
        stdio: ['ignore', 'ignore', 'pipe'],
      }),
    )
    if ((await lstat(path).catch(unlessSwapped)) === null) return
    // The first words are of the user's own rights, and so the ones to go by.
    if (code !== 0) why ||= said.split('\n')[0]!.slice(0, 300)
  }
  throw new Error(`Cannot remove "${path}": ${why}`)
}

/** Programs that go by bytes, and into no other file system. Each takes the path as its last argument. Not Node's own `rm`: that goes by
 *  paths, and a folder that is swapped for a link under way leads it to what the link leads to. rm(1) opens each folder relative to the
 *  one above it, and follows no link. */
async function waysToRemove(path: string): Promise<readonly (readonly [string, ...string[]])[]> {
  const removing = ['rm', '-rf', ...(process.platform === 'linux' ? ['--one-file-system'] : []), '--'] as const
  if (process.getuid?.() === 0) return [removing]
  // Of a link, chmod would open what it leads to.
  const isFolder = (await lstat(path).catch(unlessSwapped))?.isDirectory() === true
  return [
    removing,
    ...(isFolder ? [['chmod', '-R', 'u+rwX', '--'] as const, removing] : []),
    // In a cell with `sudo`, another user of this one's own range made some of it: who is root over the range may remove it.
    ...(process.platform === 'linux' ? [['unshare', '--user', '--map-root-user', '--map-auto', '--', ...removing] as const] : []),
  ]
}

/** Removes each of them, whatever becomes of the others, and says of all at once what could not be. */
export async function removeTrees(paths: readonly string[]): Promise<void> {
  const left: string[] = []
  for (const path of paths)
    await removeTree(path).catch((error: unknown) => left.push(error instanceof Error ? error.message : String(error)))
  if (left.length > 0) throw new Error(left.join('; '))
}

/** Changes the owner of a folder and everything below, of links themselves and never of what they lead to. */
export async function giveTree(path: string, { uid, gid }: User): Promise<void> {
  await walkTree(path, async ({ path: each }) => lchown(each, uid, gid))
}

/** One thing on the way through a tree. `path` leads to it through the open folder above, so nobody can put a link in its way. Its
 *  own name may still have become a link: only what does not follow one may be done to it. */
type Passed = { readonly path: Path; readonly kind: 'folder' | 'link' | 'file' }
/** The name of a file need not be text. */
type Path = string | Buffer

/** Deeper than this nobody works, and every level is an open folder. */
const depthMax = 256
/** Passes through a tree in which an agent may be at work as it goes: root must not be led out of it by a folder that is swapped for
 *  a link between two steps. Each folder is opened relative to the one above and without following a link (openat(2), by way of
 *  /proc/self/fd, since Node has no such call). The folder itself comes first. What lies too deep is refused, or passed by. */
export async function walkTree(folder: string, visit: Visit, tooDeep: (folder: string) => void = refuse): Promise<void> {
  await visit({ path: folder, kind: 'folder' })
  await walkBelow(folder, { visit, tooDeep }, 0)
}

type Visit = (passed: Passed) => Promise<void>

function refuse(folder: string): never {
  throw new Failure('workspace_refused', `Cannot pass through "${folder}": it is more than ${depthMax} folders deep`, {
    hint: 'Let the session work on a copy (--copy)',
  })
}

type Walk = { readonly visit: Visit; readonly tooDeep: (folder: string) => void }

async function walkBelow(folder: Path, walk: Walk, depth: number): Promise<void> {
  if (depth > depthMax) return walk.tooDeep(String(folder))
  await using handle = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW).catch(unlessSwapped)
  if (handle === null) return
  const here = `/proc/self/fd/${handle.fd}`
  for (const entry of await readdir(here, { withFileTypes: true, encoding: 'buffer' })) {
    const path = Buffer.concat([Buffer.from(`${here}/`), entry.name])
    const kind = entry.isDirectory() ? 'folder' : entry.isSymbolicLink() ? 'link' : 'file'
    await walk.visit({ path, kind }).catch(unlessSwapped)
    if (kind === 'folder') await walkBelow(path, walk, depth + 1)
  }
}

/** What went away or turned into a link since it was listed is not passed. */
function unlessSwapped(error: NodeJS.ErrnoException): null {
  if (['ENOENT', 'ELOOP', 'ENOTDIR'].includes(error.code ?? '')) return null
  throw error
}
