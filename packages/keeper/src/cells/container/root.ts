import {
  chmodSync,
  closeSync,
  constants,
  copyFileSync,
  existsSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { Failure } from '@anchorhold/protocol/failures'
import type { CellFiles, CellSpec } from '../cell.ts'
import { type HostRoot } from '../host-root.ts'
import { generatedFiles, inside } from '../layout.ts'

export type Bind = {
  readonly source: string
  readonly target: string
  readonly writable: boolean
  /** Nothing in it can be run. */
  readonly noexec?: true
}

/** What the cell's root is made of: a folder, the folder that it is laid over if there is one, and what is mounted on top. */
export type Root = {
  readonly folder: string
  readonly over: string | null
  readonly binds: readonly Bind[]
  /** Makes the folder. */
  make(): void
}

/** Where a cell finds what its driver needs there. */
export const own = {
  node: '/opt/anchorhold/inside/node',
  program: '/opt/anchorhold/inside/inside.cjs',
  /** The first process, which reaps: an orphan that nobody waits for must not count against the limit for ever. */
  init: '/opt/anchorhold/inside/init',
  /** The folder with the socket to the keeper. */
  channel: '/run/cell',
} as const

export type RootOptions = {
  readonly spec: CellSpec
  readonly files: CellFiles
  /** catatonit, on the host. */
  readonly init: string
  readonly host: HostRoot
  /** A folder of the driver's for the root to be made in, which is not there yet. */
  readonly folder: string
  /** The folder that the cell sees as `own.channel`. */
  readonly channel: string
}

/** The root that a cell gets: the host's own programs, or a root folder that the session brings, with every place that something is
 *  mounted at. The session's folder itself is never written to. */
export function rootOf(options: RootOptions): Root {
  const { spec, files, init, host, folder, channel } = options
  const binds: Bind[] = [
    ...(spec.root === null ? host.trees.map((path) => readOnly(path, path)) : foreignLibraries(spec.root)),
    readOnly(init, own.init),
    readOnly(files.node, own.node),
    readOnly(files.inside, own.program),
    readOnly(channel, own.channel),
    { source: spec.home, target: inside.home, writable: true },
    { source: spec.workspace, target: inside.workspace, writable: true },
    ...spec.covers.map(({ path, by }) => readOnly(by, `${inside.workspace}${path.slice(spec.workspace.length)}`)),
    // The folder and not the sockets, so that the gate may restart and make them anew.
    ...(spec.windows === null ? [] : [readOnly(spec.windows, inside.windows)]),
    ...(spec.caches === undefined ? [] : [{ source: spec.caches, target: inside.caches, writable: true, noexec: true } as const]),
    ...spec.mounts.map(({ source, target }) => readOnly(source, target)),
  ]
  return { folder, over: spec.root, binds, make: () => makeRoot(options, binds) }
}

function makeRoot({ spec, host, folder }: RootOptions, binds: readonly Bind[]): void {
  const place = (path: string) => join(folder, spec.root === null ? path : resolveIn(spec.root, path))
  const write = (path: string, content: string) => {
    mkdirSync(dirname(place(path)), { recursive: true })
    writeFileSync(place(path), content, { mode: 0o644 })
  }
  mkdirSync(folder, { mode: 0o755 })
  for (const path of ['/proc', '/sys', '/dev', '/tmp', '/var/tmp', '/run', '/opt']) mkdirSync(place(path), { recursive: true })
  // Podman gives what it mounts there the mode of what it finds.
  for (const path of ['/tmp', '/var/tmp']) chmodSync(place(path), 0o1777)
  if (spec.root === null) showHost(host, folder)
  for (const [path, content] of Object.entries(generatedFiles)) write(path, content)
  write('/etc/passwd', users(spec.root, 'passwd', passwd))
  write('/etc/group', users(spec.root, 'group', group))
  write('/etc/hostname', 'cell\n')
  // Podman puts a file there.
  write('/run/.containerenv', '')
  // A link to what is only there once the cell runs: where an image has one, it is not followed.
  const etc = spec.root === null ? '/etc' : resolveIn(spec.root, '/etc')
  const mtab = [folder, ...(spec.root === null ? [] : [spec.root])].map((above) => join(above, etc, 'mtab'))
  if (mtab.every((path) => lstatSync(path, { throwIfNoEntry: false }) === undefined)) symlinkSync('../proc/self/mounts', mtab[0]!)

  for (const { source, target } of binds) {
    // What lies in the workspace is there already.
    if (target.startsWith(`${inside.workspace}/`)) continue
    const at = place(target)
    if (statSync(source).isDirectory()) mkdirSync(at, { recursive: true })
    else if (!existsSync(at)) {
      mkdirSync(dirname(at), { recursive: true })
      writeFileSync(at, '')
    }
  }
}

const readOnly = (source: string, target: string): Bind => ({ source, target, writable: false })

function showHost(host: HostRoot, folder: string): void {
  for (const path of host.files) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    copyFileSync(path, join(folder, path))
  }
  for (const { path, target } of host.links) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    symlinkSync(target, join(folder, path))
  }
}

/** Whoever the cell's user is inside, by number, it has a name, a home and a shell. */
const passwd = ['root:x:0:0:agent:/home/agent:/bin/bash', 'agent:x:1000:1000:agent:/home/agent:/bin/bash']
const group = ['root:x:0:', 'agent:x:1000:']
const usersBytesMax = 64 * 1024

/** Our users, and what others a foreign root knows. */
function users(root: string | null, file: 'passwd' | 'group', ours: readonly string[]): string {
  const taken = ours.map((line) => line.split(':')).flatMap(([name, , id]) => [name, id])
  const theirs = root === null ? generatedFiles[`/etc/${file}`] : readSmall(join(root, resolveIn(root, `/etc/${file}`)))
  const others = theirs.split('\n').filter((line) => {
    const [name, , id] = line.split(':')
    return id !== undefined && !taken.includes(name) && !taken.includes(id)
  })
  return [...ours, ...others, ''].join('\n')
}

/** A foreign root may hold anything in place of the file. */
function readSmall(path: string): string {
  try {
    const fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    try {
      const stat = fstatSync(fd)
      return stat.isFile() && stat.size <= usersBytesMax ? readFileSync(fd, 'utf8') : ''
    } finally {
      closeSync(fd)
    }
  } catch {
    return ''
  }
}

/** Where a path of a root folder leads, with the links in it followed as from inside. What is not there is taken as it is. */
export function resolveIn(root: string, path: string): string {
  let left = path.split('/').filter((part) => part !== '' && part !== '.')
  let done: string[] = []
  for (let links = 0; left.length > 0;) {
    const [part = '', ...rest] = left
    left = rest
    if (part === '..') {
      done = done.slice(0, -1)
      continue
    }
    const at = join(root, ...done, part)
    if (!lstatSync(at, { throwIfNoEntry: false })?.isSymbolicLink()) {
      done = [...done, part]
      continue
    }
    if (++links > linksMax) throw new Failure('cell_unavailable', `Cannot use the root "${root}": "${path}" leads in a circle`)
    const target = readlinkSync(at)
    if (target.startsWith('/')) done = []
    left = [...target.split('/').filter((each) => each !== '' && each !== '.'), ...left]
  }
  return `/${done.join('/')}`
}
const linksMax = 40

/** Our Node and the agent are made for glibc. A root made with musl gets this machine's loader and libraries beside its own, where
 *  they look for them; its own programs do not look there. */
export function foreignLibraries(root: string, hostRoot = '/'): Bind[] {
  const names = namesIn(join(root, resolveIn(root, '/lib')))
  if (!names.some((name) => name.startsWith('ld-musl-'))) return []
  return glibc.flatMap(({ loader, folders }) => {
    if (!existsSync(join(hostRoot, loader)) || existsSync(join(root, resolveIn(root, loader)))) return []
    const libraries = folders.filter((folder) => existsSync(join(hostRoot, folder, 'libc.so.6')))
    return [
      readOnly(join(hostRoot, loader), loader),
      ...libraries.slice(0, 1).map((folder) => readOnly(join(hostRoot, folder), folder)),
    ]
  })
}

const glibc = [
  { loader: '/lib/ld-linux-aarch64.so.1', folders: ['/lib/aarch64-linux-gnu', '/lib64'] },
  { loader: '/lib64/ld-linux-x86-64.so.2', folders: ['/lib/x86_64-linux-gnu', '/lib64'] },
]

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}
