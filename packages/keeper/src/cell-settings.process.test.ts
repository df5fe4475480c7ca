import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { settingsEnvironment, writeSettings } from './cell-settings.ts'
import { trustFile, trustFolder } from './trust.ts'

const folder = mkdtempSync(join(tmpdir(), 'ah-settings-'))
beforeAll(async () => {
  mkdirSync(trustFolder(folder))
  writeFileSync(join(trustFolder(folder), trustFile), rootCertificates.slice(0, 2).join('\n'))
  await writeSettings({ folder, forges: ['git.example.org'] })
})
afterAll(() => rmSync(folder, { recursive: true }))

test.each([
  ['git@github.com:me/it.git', 'https://github.com/me/it.git'],
  ['ssh://git@github.com/me/it.git', 'https://github.com/me/it.git'],
  ['git@git.example.org:me/it', 'https://git.example.org/me/it'],
  ['git@elsewhere.org:me/it', 'git@elsewhere.org:me/it'],
  ['https://github.com/me/it', 'https://github.com/me/it'],
])('git takes %s for %s', (url, expected) => {
  const env = { PATH: process.env.PATH, HOME: folder, ...settingsEnvironment(trustFolder(folder)) }
  expect(execFileSync('git', ['ls-remote', '--get-url', url], { env, cwd: folder, encoding: 'utf8' }).trim()).toBe(expected)
})

test('writeSettings() leaves what apt and Java read', () => {
  const { APT_CONFIG = '' } = settingsEnvironment(trustFolder(folder))
  expect(readFileSync(APT_CONFIG, 'utf8')).toBe('Acquire::https::CaInfo "/opt/anchorhold/trust/all.pem";\n')
  expect(readFileSync(join(trustFolder(folder), 'java.jks')).readUInt32BE(8)).toBe(2)
})
