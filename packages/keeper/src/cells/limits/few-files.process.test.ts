import { execFileSync } from 'node:child_process'
import { linkSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { sizeOfFew } from './few-files.ts'

let folder: string
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'anchorhold-test-'))))
afterEach(() => rmSync(folder, { recursive: true }))

test('sizeOfFew() counts what du(1) counts: each file once, and nothing behind a link', () => {
  const [one, two] = ['one', 'two'].map((name) => join(folder, name))
  for (const path of [one!, two!, join(one!, 'deep/er')]) mkdirSync(path, { recursive: true })
  writeFileSync(join(one!, 'deep/er/file'), 'x'.repeat(20_000))
  linkSync(join(one!, 'deep/er/file'), join(two!, 'again'))
  symlinkSync('/usr', join(two!, 'elsewhere'))
  writeFileSync(join(two!, 'empty'), '')
  const du = (...options: string[]) =>
    execFileSync('du', [...options, '-sx', '--', one!, two!], { encoding: 'utf8' })
      .split('\n')
      .reduce((sum, line) => sum + Number(line.split('\t')[0]), 0)
  expect(sizeOfFew([one!, two!])).toEqual({ bytes: du('-k') * 1024, files: du('--inodes') })
})

test('sizeOfFew() leaves many files, and a folder that is not there, to others', () => {
  for (let i = 0; i < 501; i++) writeFileSync(join(folder, String(i)), '')
  expect(sizeOfFew([folder])).toBeNull()
  expect(sizeOfFew([join(folder, 'gone')])).toBeNull()
})
