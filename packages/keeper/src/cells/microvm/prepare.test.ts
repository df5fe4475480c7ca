import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { machineFiles } from './files.ts'
import { pruneMachines } from './prepare.ts'

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
