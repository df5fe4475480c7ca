import { createRequire } from 'node:module'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { packageFolder } from './package-folder.ts'

test('packageFolder() finds what Node finds', () => {
  const require = createRequire(import.meta.url)
  expect(packageFolder('better-sqlite3')).toBe(dirname(require.resolve('better-sqlite3/package.json')))
  expect(packageFolder('@anthropic-ai/claude-agent-sdk')).toBe(dirname(require.resolve('@anthropic-ai/claude-agent-sdk')))
  expect(packageFolder('no-such-package')).toBeNull()
})

test('packageFolder() takes the nearest, and what it is a link to', () => {
  const root = mkdtempSync(join(tmpdir(), 'ah-packages-'))
  const at = (path: string) => join(root, path)
  for (const each of ['node_modules/a', 'node_modules/app/dist', 'store/b', 'node_modules/app/node_modules'])
    mkdirSync(at(each), { recursive: true })
  symlinkSync(at('store/b'), at('node_modules/app/node_modules/b'))
  mkdirSync(at('node_modules/b'))
  const from = at('node_modules/app/dist')
  expect([packageFolder('a', from), packageFolder('b', from)]).toEqual([at('node_modules/a'), at('store/b')])
  rmSync(root, { recursive: true })
})
