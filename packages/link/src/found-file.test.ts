import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openFound, readFound } from './found-file.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ah-found-'))
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
