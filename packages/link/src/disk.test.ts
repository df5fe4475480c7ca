import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
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

test('folderDisk() begins a file with bytes in one go, or goes on with the one before', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ah-disk-'))
  const disk = folderDisk(folder)
  // What one that died in the middle of it has left.
  writeFileSync(join(folder, 'b.new'), 'left behind')
  disk.use('a')
  disk.write(Buffer.from('1'))
  disk.use('b', Buffer.from('23'))
  disk.write(Buffer.from('4'))
  mkdirSync(join(folder, 'c'))
  expect(() => disk.use('c', Buffer.from('5'))).toThrow('EISDIR')
  disk.write(Buffer.from('6'))
  await disk.sync()
  expect([readFileSync(join(folder, 'a'), 'utf8'), readFileSync(join(folder, 'b'), 'utf8')]).toEqual(['1', '2346'])
  expect((await disk.list()).toSorted()).toEqual(['a', 'b', 'c', 'c.new'])
  await disk.close()
  rmSync(folder, { recursive: true })
})

test('folderDisk() reads a part of a file, also far behind what fits into memory', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ah-disk-'))
  const disk = folderDisk(folder)
  disk.use('a')
  disk.write(Buffer.from('begun'))
  await disk.truncate('a', 3 * 2 ** 30)
  disk.write(Buffer.from('end'))
  expect(String(await disk.read('a', 1, 3))).toBe('egu')
  expect(String(await disk.read('a', 3 * 2 ** 30 - 1, 100))).toBe('\0end')
  expect((await disk.read('a', 4 * 2 ** 30, 100)).length).toBe(0)
  await disk.close()
  rmSync(folder, { recursive: true })
})
