import { sqliteStore } from '@anchorhold/daemon/store/sqlite/sqlite-store'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { netTerms } from './net-terms.ts'

const push = { branches: ['agent/*'], tags: [], deletes: false }
const config = { netCa: null, mirrors: {}, forges: { 'github.com': { push }, 'git.example': { push } } }

test('netTerms() gives a launched cell no repository at any forge, and guards the hosts of every provider', () => {
  const folder = mkdtempSync(join(tmpdir(), 'ah-terms-'))
  const database = join(folder, 'anchorhold.db')
  try {
    expect(netTerms(config, database)).toMatchObject({
      forges: { 'github.com': null, 'git.example': null },
      model_hosts: ['api.anthropic.com', 'openrouter.ai'],
    })
    const store = sqliteStore(database)
    const credential = { from: 'none' } as const
    store.providers.put({
      ...{ name: 'own', kind: 'local', baseUrl: 'https://models.example:8443/v1', auth: 'none', credential, model: 'x' },
    })
    store.close()
    expect(netTerms(config, database).model_hosts).toEqual(['api.anthropic.com', 'openrouter.ai', 'models.example'])
  } finally {
    rmSync(folder, { recursive: true })
  }
})
