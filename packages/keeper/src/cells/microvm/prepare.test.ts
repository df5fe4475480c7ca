import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { zstdCompressSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { machineFiles } from './files.ts'
import { kernelIn, placeModules, pruneMachines } from './prepare.ts'

test('pruneMachines() removes what nothing starts from any more, and what somebody is just making stays', () => {
  const images = mkdtempSync(join(tmpdir(), 'anchorhold-test-'))
  try {
    const root = join(images, 'base-0/root')
    const files = machineFiles(root)
    const shared = dirname(files.kernel)
    for (const folder of [root, files.snapshots, files.runtimes]) mkdirSync(folder, { recursive: true })
    const names = ['now', 'old', 'making.part', 'broken.part']
    for (const name of names) writeFileSync(join(files.snapshots, name), '')
    utimesSync(join(files.snapshots, 'broken.part'), 1, 1)
    for (const name of ['now.erofs', 'old.erofs']) writeFileSync(join(files.runtimes, name), '')
    for (const path of [files.kernel, files.initramfs, join(shared, 'initramfs-old')]) writeFileSync(path, '')
    pruneMachines(root, [{ snapshot: 'now', runtime: 'now.erofs' }])
    expect(readdirSync(files.snapshots).sort()).toEqual(['making.part', 'now'])
    expect(readdirSync(files.runtimes)).toEqual(['now.erofs'])
    expect(readdirSync(shared).sort()).toEqual([basename(files.initramfs), 'kernel', 'runtimes'].sort())
  } finally {
    rmSync(images, { recursive: true })
  }
})

test.each([
  ['boot/vmlinuz-6.1.0-arm64', 'lib/modules/6.1.0-arm64'],
  ['boot/vmlinuz-6.12+deb13-arm64', 'usr/lib/modules/6.12+deb13-arm64'],
  ['usr/lib/modules/7.2+deb14-arm64/vmlinuz', 'usr/lib/modules/7.2+deb14-arm64'],
])('kernelIn() finds %s, and its modules', (file, modules) => {
  const work = mkdtempSync(join(tmpdir(), 'anchorhold-test-'))
  try {
    expect(() => kernelIn(work)).toThrow('holds no kernel')
    for (const folder of [modules, dirname(file)]) mkdirSync(join(work, folder), { recursive: true })
    writeFileSync(join(work, file), '')
    expect(kernelIn(work)).toEqual({ file: join(work, file), modules: join(work, modules) })
  } finally {
    rmSync(work, { recursive: true })
  }
})

test('placeModules() puts those that are not built in one after the other, each behind what it needs, however they are packed', async () => {
  const work = mkdtempSync(join(tmpdir(), 'anchorhold-test-'))
  try {
    const [from, to] = [join(work, 'from'), join(work, 'to')]
    mkdirSync(join(from, 'kernel/drivers'), { recursive: true })
    const depends = (name: string) => Buffer.from(`module\0depends=${name}\0`)
    writeFileSync(join(from, 'kernel/drivers/virtio_blk.ko.zst'), zstdCompressSync(depends('virtio-ring')))
    writeFileSync(join(from, 'kernel/drivers/virtio-ring.ko'), depends(''))
    const builtIn = ['virtio_pci', 'virtio_console', 'erofs', 'overlay', '9pnet_virtio']
    const tell = (names: readonly string[]) =>
      writeFileSync(join(from, 'modules.builtin'), names.map((name) => `kernel/fs/${name}.ko\n`).join(''))
    tell(builtIn)
    await expect(placeModules(from, to)).rejects.toThrow('the kernel package holds no 9p')
    tell([...builtIn, '9p'])
    await placeModules(from, to)
    expect(readdirSync(to)).toEqual(['00-virtio_ring.ko', '01-virtio_blk.ko'])
    expect(readFileSync(join(to, '01-virtio_blk.ko'))).toEqual(depends('virtio-ring'))
  } finally {
    rmSync(work, { recursive: true })
  }
})
