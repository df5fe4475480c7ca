import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { folderDisk } from './disk.ts'

test('folderDisk() syncs the file that was in use, also when another one is put to use meanwhile', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ah-disk-'))
  const disk = folderDisk(folder)
  // The pool that syncs has four threads: with more of them some begin after the file was left.
  for (let round = 0; round < 20; round++) {
    disk.use(`${round}`)
    disk.write(Buffer.from('a'))
    const syncs = Array.from({ length: 12 }, () => disk.sync())
    disk.use(`${round}-next`)
    disk.write(Buffer.from('b'))
    await Promise.all(syncs)
    await disk.sync()
    expect(readFileSync(join(folder, `${round}`), 'utf8')).toBe('a')
  }
  await disk.close()
  rmSync(folder, { recursive: true })
})
