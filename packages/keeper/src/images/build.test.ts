import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { forgetAccess } from './build.ts'

test('forgetAccess() leaves no password of a proxy or a package source in an image', () => {
  const root = mkdtempSync(join(tmpdir(), 'anchorhold-test-'))
  const at = (path: string) => join(root, 'etc/apt', path)
  for (const folder of ['apt.conf.d', 'sources.list.d']) mkdirSync(at(folder), { recursive: true })
  writeFileSync(at('apt.conf.d/99mmdebstrap'), 'Acquire::http::Proxy "http://user:hidden@proxy.example";\n')
  writeFileSync(at('sources.list'), 'deb https://user:hidden@a.example/debian stable main\n')
  writeFileSync(at('sources.list.d/b.sources'), 'Types: deb\nURIs: https://hidden@b.example/debian\n')
  forgetAccess(root)
  expect(existsSync(at('apt.conf.d/99mmdebstrap'))).toBe(false)
  expect(readFileSync(at('sources.list'), 'utf8')).toBe('deb https://a.example/debian stable main\n')
  expect(readFileSync(at('sources.list.d/b.sources'), 'utf8')).toBe('Types: deb\nURIs: https://b.example/debian\n')
  rmSync(root, { recursive: true })
})
