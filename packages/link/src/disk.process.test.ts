import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
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
  expect((await disk.list()).toSorted()).toEqual(['a', 'b', 'c', 'c.new'])
  await disk.close()
  expect([readFileSync(join(folder, 'a'), 'utf8'), readFileSync(join(folder, 'b'), 'utf8')]).toEqual(['1', '2346'])
  rmSync(folder, { recursive: true })
})

test('folderDisk() reads a part of a file, also far behind what fits into memory', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ah-disk-'))
  const disk = folderDisk(folder)
  disk.use('a')
  disk.write(Buffer.from('begun'))
  await disk.close()
  await disk.truncate('a', 3 * 2 ** 30)
  disk.use('a')
  disk.write(Buffer.from('end'))
  expect(String(await disk.read('a', 1, 3))).toBe('egu')
  expect(String(await disk.read('a', 3 * 2 ** 30 - 1, 4))).toBe('\0end')
  expect((await disk.read('a', 4 * 2 ** 30, 100)).length).toBe(0)
  await disk.close()
  rmSync(folder, { recursive: true })
})

test('folderDisk() reads nothing but files, and does not wait for who may write to a fifo', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ah-disk-'))
  execFileSync('mkfifo', [join(folder, 'fifo')])
  symlinkSync('/dev/zero', join(folder, 'link'))
  const disk = folderDisk(folder)
  await expect(disk.read('fifo', 0, 1)).rejects.toThrow('it is no file')
  await expect(disk.read('link', 0, 1)).rejects.toThrow('ELOOP')
  rmSync(folder, { recursive: true })
})

test('folderDisk() makes a file longer ahead of what is written, and as long as that when it is left', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ah-disk-'))
  const disk = folderDisk(folder)
  disk.use('a')
  const lengths = ['first', 'second'].map((text) => {
    disk.write(Buffer.from(text))
    return statSync(join(folder, 'a')).size
  })
  expect(lengths[0]).toBeGreaterThan(1000)
  expect(lengths[1]).toBe(lengths[0])
  // Made, and not only said to be so long: a sync has no block to find for what is written there.
  await disk.sync()
  const { size, blocks } = statSync(join(folder, 'a'))
  expect(blocks * 512).toBeGreaterThanOrEqual(size)
  // One that only looks makes nothing longer.
  folderDisk(folder).use('a')
  expect(statSync(join(folder, 'a')).size).toBe(lengths[0])
  disk.use('b')
  expect(readFileSync(join(folder, 'a'), 'utf8')).toBe('firstsecond')
  await disk.close()
  expect(statSync(join(folder, 'b')).size).toBe(0)
  rmSync(folder, { recursive: true })
})

test('folderDisk() makes a long file longer by as much again', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ah-disk-'))
  const disk = folderDisk(folder)
  disk.use('a')
  let made = 0
  let times = 0
  for (let written = 0; written < 2 ** 18; written += 1000) {
    disk.write(Buffer.alloc(1000, 'x'))
    const { size } = statSync(join(folder, 'a'))
    if (size > made) times++
    made = size
  }
  expect(times).toBeLessThan(8)
  await disk.close()
  rmSync(folder, { recursive: true })
})

test.skipIf(process.getuid?.() !== 0)(
  'folderDisk() writes lines to the last byte of a full disk (needs root, to mount a small one)',
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'ah-disk-'))
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', folder])
    try {
      const disk = folderDisk(folder)
      disk.use('a')
      let written = 0
      const fill = () => {
        for (;;) {
          disk.write(Buffer.alloc(1024, 'x'))
          written += 1024
        }
      }
      expect(fill).toThrow('ENOSPC')
      expect(written).toBe(64 * 1024)
      await disk.close()
    } finally {
      execFileSync('umount', [folder])
      rmSync(folder, { recursive: true })
    }
  },
)
