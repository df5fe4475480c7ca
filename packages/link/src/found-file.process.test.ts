import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { listFound, openFound, readFound, readFoundStart } from './found-file.ts'

let folder: string
beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'ah-found-')))
  writeFileSync(join(folder, 'file'), 'what is there')
})
afterEach(() => rmSync(folder, { recursive: true }))

test('readFound() reads a file, and none that is longer than it may be', async () => {
  expect(await readFound(join(folder, 'file'), 13)).toBe('what is there')
  await expect(readFound(join(folder, 'file'), 12)).rejects.toThrow('it has 13 bytes, and may have 12')
})

test.each([
  ['a link', (path: string) => symlinkSync('file', path), 'ELOOP'],
  ['a link to what never ends', (path: string) => symlinkSync('/dev/zero', path), 'ELOOP'],
  ['a fifo that nobody writes to', (path: string) => execFileSync('mkfifo', [path]), 'it is no file'],
  ['a folder', (path: string) => mkdirSync(path), 'it is no file'],
])('openFound() opens no file where there is %s, and waits for nobody', async (_, put, words) => {
  const path = join(folder, 'put')
  put(path)
  await expect(openFound(path)).rejects.toThrow(words)
})

test('readFound() reads nothing through a folder that a link has taken the place of', async () => {
  for (const name of ['own', 'other']) {
    mkdirSync(join(folder, name))
    writeFileSync(join(folder, name, 'file'), name)
  }
  const below = join(folder, 'own')
  expect(await readFound(join(below, 'file'), 10, { below })).toBe('own')
  symlinkSync('../other', join(below, 'way'))
  await expect(readFound(join(below, 'way/file'), 10, { below })).rejects.toThrow('does not lie in')
})

test('readFoundStart() reads no more than it is told, and nothing of what has no size', async () => {
  expect((await readFoundStart(join(folder, 'file'), 4)).toString()).toBe('what')
  expect((await readFoundStart(join(folder, 'file'), 400)).toString()).toBe('what is there')
})

test('listFound() lists a folder that is where its path says, and no other', () => {
  expect(listFound(folder)?.map(({ name }) => name)).toEqual(['file'])
  symlinkSync(folder, join(folder, 'link'))
  execFileSync('mkfifo', [join(folder, 'fifo')])
  mkdirSync(join(folder, 'own'))
  symlinkSync('..', join(folder, 'own/up'))
  for (const name of ['link', 'fifo', 'file', 'nothing', 'own/up/own']) expect(listFound(join(folder, name))).toEqual([])
})
