import { linkSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { coverWorkspace } from './covers.ts'
import { veilOver } from './veil.ts'

let base: string
let workspace: string
beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), 'anchorhold-filter-')))
  workspace = join(base, 'workspace')
  mkdirSync(workspace)
})
afterEach(() => rmSync(base, { recursive: true, force: true }))

const put = (path: string, text = 'hunter2') => {
  mkdirSync(join(workspace, path, '..'), { recursive: true })
  writeFileSync(join(workspace, path), text)
}
const covered = () =>
  coverWorkspace(workspace, 'standard', join(base, 'covers'))
    .map(({ path, by }) => [path.slice(workspace.length + 1), by.slice(base.length + 1)])
    .toSorted(([a = ''], [b = '']) => a.localeCompare(b))

test('coverWorkspace() covers files with an empty file, folders with an empty folder, and nothing else', () => {
  for (const path of ['.env', 'src/main.ts', 'deep/down/server.key', '.ssh/id_rsa', '.ssh/config']) put(path)
  expect(covered()).toEqual([
    ['.env', 'covers/file'],
    ['.ssh', 'covers/folder'],
    ['deep/down/server.key', 'covers/file'],
  ])
  expect(readFileSync(join(base, 'covers/file'), 'utf8')).toBe('')
})

test('coverWorkspace() has nothing to cover in a workspace without secrets', () => {
  put('src/main.ts')
  expect(covered()).toEqual([])
})

test('coverWorkspace() covers what a link of such a name leads to, and no place outside', () => {
  put('plain.txt')
  symlinkSync('plain.txt', join(workspace, '.env'))
  symlinkSync('/etc/hostname', join(workspace, 'outside.pem'))
  symlinkSync('nowhere', join(workspace, 'dangling.key'))
  expect(covered()).toEqual([['plain.txt', 'covers/file']])
})

test('coverWorkspace() covers the same file under every name', () => {
  put('.env')
  mkdirSync(join(workspace, 'a'))
  linkSync(join(workspace, '.env'), join(workspace, 'a/harmless.txt'))
  expect(covered()).toEqual([
    ['.env', 'covers/file'],
    ['a/harmless.txt', 'covers/file'],
  ])
})

test('coverWorkspace() shows a clean copy of git settings that hold a token, and leaves others alone', () => {
  put('.git/config', '[remote "origin"]\n\turl = https://x:hunter2@example.org/a.git\n')
  put('.git/modules/lib/config', '[core]\n\tbare = false\n')
  put('.git/objects/aa/server.pem')
  const [cover, ...more] = coverWorkspace(workspace, 'standard', join(base, 'covers'))
  expect(more).toEqual([])
  expect(cover?.path).toBe(join(workspace, '.git/config'))
  expect(readFileSync(cover!.by, 'utf8')).toContain('https://example.org/a.git')
})

test('coverWorkspace() refuses to start with more than it can cover', () => {
  for (let at = 0; at <= 1000; at++) put(`keys/${at}.pem`)
  expect(() => covered()).toThrow('more than the 1000')
})

test('veilOver() tells each file that came since once', () => {
  put('.env')
  const veil = veilOver(workspace, 'standard', join(base, 'covers'))
  expect(veil.cover()).toHaveLength(1)
  expect(veil.uncovered()).toEqual([])
  put('later/id_rsa')
  expect(veil.uncovered()).toEqual(['later/id_rsa'])
  expect(veil.uncovered()).toEqual([])
})
