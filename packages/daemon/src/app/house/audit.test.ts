import { auditWords } from '@anchorhold/core/audit-words'
import type { AuditKind } from '@anchorhold/protocol/audit'
import type { NewEvent } from '@anchorhold/protocol/events'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { audit } from './audit.ts'
import { createSession } from '../sessions/create-session.ts'
import { owner, record, type TestParts, testParts } from '../test-parts.ts'

let parts: TestParts
beforeEach(() => {
  parts = testParts()
})
afterEach(() => parts[Symbol.dispose]())

const net = (secrets: { readonly name: string; readonly count: number }[]): NewEvent => ({
  type: 'net',
  body: { host: 'api.example', port: 443, connections: 1, bytes_out: 1, bytes_in: 1, blocked: 0, why: null, secrets },
})

test('audit() finds a raised budget as money, and a secret that was put into calls as secret, and no other call', async () => {
  const { id } = await createSession(parts, owner, {})
  const raise = { node: 'group/x', span: 'life', period: 0, cap_nanos: 5_000_000_000, simulated: false } as const
  record(
    parts,
    id,
    { type: 'budget.raised', body: { ...raise, actor: 'ann', door: 'cli' } },
    net([]),
    net([{ name: 'deploy', count: 3 }]),
  )
  const words = (kind: AuditKind | null) =>
    audit(parts, owner, { session: id, kind, since: 0, before: null }).entries.map((event) => auditWords(event).words)
  const put = 'secrets put into calls to api.example:443: deploy (3)'
  expect(words('money')).toEqual(['budget of group/x by life raised to $5.00 by ann through cli'])
  expect(words('secret')).toEqual([put])
  expect(words(null)).toContain(put)
})
