import { isOwnerGone, ownerMark } from '@anchorhold/link/owner'
import { Failure } from '@anchorhold/protocol/failures'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { zstdDecompressSync } from 'node:zlib'
import { runTool } from '../../images/tools.ts'
import type { CellFiles } from '../cell.ts'
import { type MachineFiles, machineFiles, runtimeKey } from './files.ts'
import { guestInit } from './guest.ts'
import { initramfs } from './initramfs.ts'
import { type MachineArch, reseedProgram } from './reseed.ts'

export type PrepareOptions = {
  /** An image's root folder. */
  readonly root: string
  readonly arch: MachineArch
  /** What is being done, in a few words. */
  readonly say: (step: string) => void
}

/** Makes what machines of an image start from, as far as it is not there: kernel and first program from Debian's packages, which need
 *  not be installed, and the root as a disk. */
export async function prepareMachine({ root, arch, say }: PrepareOptions): Promise<MachineFiles> {
  const files = machineFiles(root)
  const shared = dirname(files.kernel)
  mkdirSync(shared, { recursive: true })
  chmodSync(shared, 0o755)
  const modules = join(shared, 'modules')
  if (![files.kernel, files.busybox, modules].every((path) => existsSync(path))) {
    say('fetching a kernel for machines')
    await within(shared, async (work) => {
      await unpackPackages([kernelPackages[arch], 'busybox-static'], work)
      const kernel = kernelIn(work)
      await placeModules(kernel.modules, modules)
      const busybox = ['bin/busybox', 'usr/bin/busybox'].map((path) => join(work, path)).find((path) => existsSync(path))!
      for (const [from, to] of [
        [busybox, files.busybox],
        [kernel.file, files.kernel],
      ] as const) {
        chmodSync(from, 0o755)
        renameSync(from, to)
      }
    })
  }
  if (!existsSync(files.initramfs)) {
    const content = initramfs([
      ...['bin', 'dev', 'proc', 'sys', 'modules'].map((path) => ({ path, content: null })),
      { path: 'init', content: Buffer.from(guestInit) },
      { path: 'bin/busybox', content: readFileSync(files.busybox) },
      ...readdirSync(modules).map((name) => ({
        path: `modules/${name}`,
        content: readFileSync(join(modules, name)),
        mode: 0o644,
      })),
    ])
    const part = unfinished(files.initramfs)
    writeFileSync(part, content)
    chmodSync(part, 0o644)
    renameSync(part, files.initramfs)
  }
  if (!existsSync(files.root)) {
    say('making a disk of the image')
    await makeDisk(root, files.root)
  }
  for (const folder of [files.snapshots, files.runtimes]) {
    mkdirSync(folder, { recursive: true })
    chmodSync(folder, 0o755)
  }
  return files
}

/** What a saved machine is found by: its memory, and the disk with the program inside that it was saved with. */
export type Saved = { readonly snapshot: string; readonly runtime: string }

/** Removes saved machines of an image that nothing starts from any more: they were saved with another release, another QEMU or other
 *  limits, and each is as large as the memory it holds. What runs has its files open, and keeps them. */
export function pruneMachines(root: string, kept: readonly Saved[]): void {
  const files = machineFiles(root)
  const prune = (folder: string, keeps: (name: string) => boolean) => {
    for (const name of existsSync(folder) ? readdirSync(folder) : []) {
      const path = join(folder, name)
      // Somebody else may just be writing it.
      const isBeingMade = name.endsWith('.part') && !isOwnerGone(name) && Date.now() - statSync(path).mtimeMs < partMs
      if (!keeps(name) && !isBeingMade) rmSync(path, { recursive: true, force: true })
    }
  }
  prune(files.snapshots, (name) => kept.some(({ snapshot }) => snapshot === name))
  prune(files.runtimes, (name) => kept.some(({ runtime }) => runtime === name))
  prune(dirname(files.initramfs), (name) => !name.startsWith('initramfs-') || name === basename(files.initramfs))
}
const partMs = 60 * 60_000

/** The disk with the program inside, made in `folder` unless it is at its place already. */
export async function runtimeDisk(files: MachineFiles, cell: CellFiles, arch: MachineArch, folder: string): Promise<string> {
  const name = `${runtimeKey(files, cell)}.erofs`
  const there = join(files.runtimes, name)
  if (existsSync(there)) return there
  const disk = join(folder, name)
  await within(folder, async (work) => {
    const content = join(work, 'content')
    mkdirSync(content)
    // Whatever the umask: the guest's user is to go through it.
    chmodSync(content, 0o755)
    for (const [from, to] of [
      [cell.node, 'node'],
      [cell.inside, 'inside.cjs'],
      [files.busybox, 'busybox'],
    ] as const)
      copyFileSync(from, join(content, to))
    writeFileSync(join(content, 'reseed'), reseedProgram(arch))
    for (const each of readdirSync(content)) chmodSync(join(content, each), 0o755)
    await makeDisk(content, disk)
  })
  return disk
}

/** Read-only and as it is: unpacking what is compressed would be slow where the processor is only worked out. */
async function makeDisk(folder: string, disk: string): Promise<void> {
  const part = unfinished(disk)
  rmSync(part, { force: true })
  await runTool('mkfs.erofs', ['--quiet', '--all-root', '-x-1', part, folder])
  chmodSync(part, 0o644)
  renameSync(part, disk)
}

/** The generic kernel: that for clouds cannot share folders by 9p. */
const kernelPackages = { arm64: 'linux-image-arm64', x64: 'linux-image-amd64' } as const satisfies Record<MachineArch, string>

/** Each release of Debian has put them elsewhere: Debian 12 under /boot and /lib, 13 the modules under /usr/lib, 14 the kernel too. */
export function kernelIn(work: string): { readonly file: string; readonly modules: string } {
  for (const folder of ['lib/modules', 'usr/lib/modules'].map((path) => join(work, path)))
    for (const release of existsSync(folder) ? readdirSync(folder) : []) {
      const modules = join(folder, release)
      const file = [join(work, 'boot', `vmlinuz-${release}`), join(modules, 'vmlinuz')].find((path) => existsSync(path))
      if (file !== undefined) return { file, modules }
    }
  throw new Failure('cell_unavailable', 'Cannot make a machine: the kernel package holds no kernel')
}

/** What a machine needs, in the order of loading. */
const modulesWanted = ['virtio_pci', 'virtio_blk', 'virtio_console', 'erofs', 'overlay', '9pnet_virtio', '9p']
/** One that others need without asking for it, and that newer kernels do not have any more. */
const modulesOfOld = ['crc32c_generic']
const ending = /\.ko(\.xz|\.zst)?$/

export async function placeModules(from: string, to: string): Promise<void> {
  const modulesIn = (paths: readonly string[]) =>
    new Map(
      paths.filter((path) => ending.test(path)).map((path) => [plain(basename(path).replace(ending, '')), join(from, path)]),
    )
  const byName = modulesIn(readdirSync(from, { recursive: true, encoding: 'utf8' }))
  const builtIn = modulesIn(readFileSync(join(from, 'modules.builtin'), 'utf8').split('\n'))
  const absent = modulesWanted.filter((name) => !byName.has(plain(name)) && !builtIn.has(plain(name)))
  if (absent.length > 0)
    throw new Failure('cell_unavailable', `Cannot make a machine: the kernel package holds no ${absent.join(', ')}`)
  const placed = new Map<string, Buffer>()
  const place = async (name: string): Promise<void> => {
    const path = byName.get(plain(name))
    if (path === undefined || placed.has(plain(name))) return
    const content = await moduleAt(path)
    for (const need of dependsOf(content)) await place(need)
    placed.set(plain(name), content)
  }
  for (const name of [...modulesOfOld, ...modulesWanted]) await place(name)
  const part = unfinished(to)
  rmSync(part, { recursive: true, force: true })
  mkdirSync(part)
  for (const [index, [name, content]] of [...placed].entries())
    writeFileSync(join(part, `${String(index).padStart(2, '0')}-${name}.ko`), content)
  rmSync(to, { recursive: true, force: true })
  renameSync(part, to)
}

async function moduleAt(path: string): Promise<Buffer> {
  if (path.endsWith('.zst')) return zstdDecompressSync(readFileSync(path))
  if (!path.endsWith('.xz')) return readFileSync(path)
  await runTool('xz', ['--decompress', '--keep', path])
  return readFileSync(path.replace(/\.xz$/, ''))
}

const plain = (name: string) => name.replaceAll('-', '_')

/** A module says in its own section which others it needs. */
function dependsOf(module: Buffer): string[] {
  const at = module.indexOf('\0depends=')
  if (at === -1) return []
  const start = at + '\0depends='.length
  const list = module.subarray(start, module.indexOf(0, start)).toString('latin1')
  return list.split(',').filter((name) => name !== '')
}

/** Fetches packages and what a package of packages stands for, and unpacks them without installing. apt checks their signatures. */
async function unpackPackages(names: readonly string[], work: string): Promise<void> {
  const own = { lists: join(work, 'lists'), cache: join(work, 'cache') }
  let options: string[] = []
  const known = async (name: string) => /^ {2}Candidate: \d/m.test(await runTool('apt-cache', [...options, 'policy', name]))
  if (!(await known(names[0]!))) {
    // A machine that has never asked what there is: asked for here alone, as nobody but root may do it for all.
    for (const folder of [`${own.lists}/partial`, `${own.cache}/archives/partial`]) mkdirSync(folder, { recursive: true })
    options = ['-o', `Dir::State::lists=${own.lists}`, '-o', `Dir::Cache=${own.cache}`, '-o', 'Debug::NoLocking=true']
    await runTool('apt-get', [...options, '-o', 'APT::Sandbox::User=', '-qq', 'update'])
    if (!(await known(names[0]!)))
      throw new Failure('cell_unavailable', `Cannot make a machine: no package source of this system has "${names[0]!}"`, {
        hint: 'Machines have a kernel of Debian: the microvm rung needs Debian, or one of its package sources',
      })
  }
  for (const name of names) {
    // A kernel is one package behind another, or one for each of its parts, as the release has it.
    const needed = await runTool('apt-cache', [...options, 'depends', '--recurse', '--important', name])
    const parts = needed.split('\n').filter((line) => /^linux-\S+$/.test(line))
    const fetched = [...new Set([name, ...parts])]
    await runTool('apt-get', [...options, '-o', 'APT::Sandbox::User=', '-qq', 'download', ...fetched], { cwd: work })
  }
  for (const file of readdirSync(work).filter((name) => name.endsWith('.deb')))
    await runTool('dpkg-deb', ['-x', join(work, file), work])
}

/** What a file is called until all of it is there: whose it is shows, should its maker be killed. */
export const unfinished = (path: string) => `${path}-${ownerMark()}.part`

/** Lends a folder of its own beside what is being made. */
async function within(folder: string, use: (work: string) => Promise<void>): Promise<void> {
  const work = mkdtempSync(join(folder, `new-${ownerMark()}-`))
  try {
    await use(work)
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}
