import { sqliteStore } from '@anchorhold/daemon/store/sqlite/sqlite-store'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { netPlaceholders, netTerms, repoOf } from './net-terms.ts'

const push = { branches: ['agent/*'], tags: [], deletes: false }
let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ah-terms-'))
})
afterEach(() => rmSync(folder, { recursive: true }))
const house = () => ({
  ...{ config: folder, netCa: null, mirrors: {}, forges: { 'github.com': { push }, 'git.example': { push } } },
  database: join(folder, 'anchorhold.db'),
})

test('netTerms() gives a launched cell what the house has bound for everybody, and guards the hosts of every provider', () => {
  const { database, ...config } = house()
  expect(netTerms(config, database, null)).toMatchObject({
    forges: { 'github.com': null, 'git.example': null },
    credentials: [],
    model_hosts: ['api.anthropic.com', 'openrouter.ai'],
  })
  const store = sqliteStore(database)
  const credential = { from: 'none' } as const
  store.providers.put({
    ...{ name: 'own', kind: 'local', baseUrl: 'https://models.example:8443/v1', auth: 'none', credential, model: 'x' },
  })
  store.secrets.put({ name: 's', box: 'a box', mask: '…', changedAt: 0, inside: false })
  store.close()
  writeFileSync(
    join(folder, 'credentials.yaml'),
    'credentials:\n  - { host: a.example, header: x, secret: s, env: ALL }\n  - { host: b.example, header: x, secret: s, env: HERS, for: [ada] }\n',
  )
  const terms = netTerms(config, database, 'github.com/me/mine')
  expect(terms.model_hosts).toEqual(['api.anthropic.com', 'openrouter.ai', 'models.example'])
  expect(terms.credentials).toMatchObject([{ host: 'a.example', box: 'a box' }])
  expect(netPlaceholders(config)).toEqual({ ALL: 'anchorhold-placeholder-s' })
  expect(terms.forges).toMatchObject({ 'github.com': { repo: 'me/mine', api: 'api.github.com', push }, 'git.example': null })
})

test('repoOf() is what a folder came from before a cell was in it, whatever a cell has written there since', () => {
  const { database, ...config } = house()
  const from = (origin: string) => ({ from: { path: '/home/ada/mine', origin } })
  expect(repoOf(config, database, from('git@github.com:me/mine.git'))).toBeNull()
  sqliteStore(database).close()
  expect(repoOf(config, database, from('git@github.com:me/mine.git'))).toBe('github.com/me/mine')
  expect(repoOf(config, database, from('git@github.com:me/other.git'))).toBe('github.com/me/mine')
  expect(repoOf(config, database, { from: { path: '/home/ada/mine/below', origin: 'git@github.com:me/other.git' } })).toBeNull()
})
