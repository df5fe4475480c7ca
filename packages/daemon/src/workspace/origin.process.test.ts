import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { originIn, originOf } from './origin.ts'

const scratch = mkdtempSync(join(tmpdir(), 'ah-origin-'))
afterAll(() => rmSync(scratch, { recursive: true }))

test('originOf() reads what git has written', async () => {
  execFileSync('git', ['init', '-q', join(scratch, 'a')])
  execFileSync('git', ['remote', 'add', 'upstream', 'https://github.com/them/it.git'], { cwd: join(scratch, 'a') })
  expect(await originOf(join(scratch, 'a'))).toBe(null)
  execFileSync('git', ['remote', 'add', 'origin', 'git@github.com:me/it.git'], { cwd: join(scratch, 'a') })
  expect(await originOf(join(scratch, 'a'))).toBe('git@github.com:me/it.git')
})

test('originOf() follows no link, opens no pipe and takes no file for a folder', async () => {
  const made = (name: string, then: (folder: string) => void) => {
    mkdirSync(join(scratch, name))
    then(join(scratch, name))
    return originOf(join(scratch, name))
  }
  expect(await made('linked', (folder) => symlinkSync(join(scratch, 'a/.git'), join(folder, '.git')))).toBe(null)
  expect(await made('file', (folder) => writeFileSync(join(folder, '.git'), 'gitdir: ../a/.git\n'))).toBe(null)
  expect(
    await made('linked-config', (folder) => {
      mkdirSync(join(folder, '.git'))
      symlinkSync(join(scratch, 'a/.git/config'), join(folder, '.git/config'))
    }),
  ).toBe(null)
  expect(
    await made('pipe', (folder) => {
      mkdirSync(join(folder, '.git'))
      execFileSync('mkfifo', [join(folder, '.git/config')])
    }),
  ).toBe(null)
  expect(await originOf(join(scratch, 'nothing'))).toBe(null)
})

test.each([
  ['[remote "origin"]\n\turl = https://a.org/b/c\n', 'https://a.org/b/c'],
  ['[remote "x"]\n url = https://a.org/b/c\n', null],
  ['[remote "origin"]\n url = one:a/b\n url = two:a/b\n', null],
  ['[remote "origin"]\n url = "https://a.org/b/c"\n', null],
  ['[remote "origin"]\n url = a\\\n b\n', null],
  ['[remote "origin"] url = https://a.org/b/c\n', null],
  ['[remote "origin"]\n[core]\n url = https://a.org/b/c\n', null],
])('originIn(%j)', (config, url) => {
  expect(originIn(config)).toBe(url)
})

// As long as what is read of a file may be: looked at from each of its blanks, one such line holds the daemon up for seconds.
test('originIn() gets through a line that is full of blanks, many times', { timeout: 30_000 }, () => {
  const line = `[remote "origin"]\nurl = a${' '.repeat(64_000)}x`
  for (let time = 0; time < 100; time++) expect(originIn(line)).toBeNull()
})
