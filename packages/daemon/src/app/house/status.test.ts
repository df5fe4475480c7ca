import type { NewEvent } from '@anchorhold/protocol/events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createSession } from '../sessions/create-session.ts'
import { wasRefused } from '../money/provider-refused.ts'
import { status } from './status.ts'
import { owner, record, type TestParts, testParts } from '../test-parts.ts'
import { transaction } from '../../transaction.ts'

let parts: TestParts
beforeEach(() => {
  parts = testParts()
})
afterEach(() => parts[Symbol.dispose]())

const call = (provider: string, answer: number): NewEvent => ({
  type: 'usage',
  body: {
    provider,
    model: 'm',
    tokens: { input: 0, output: 0, cache_read: 0, cache_write: 0 },
    cost_nanos: 0,
    simulated: false,
    estimated: false,
    notional: false,
    status: answer,
    duration_ms: 1,
  },
})
const by = { actor: 'owner', door: 'test' }

test('wasRefused() goes by the last call of that provider, until somebody has mended it', async () => {
  const { id } = await createSession(parts, owner, {})
  const refused = () => wasRefused(parts, { name: 'a' })
  expect(refused()).toBe(false)
  record(parts, id, call('a', 401), call('b', 200))
  expect(refused()).toBe(true)
  expect(wasRefused(parts, { name: 'b' })).toBe(false)
  transaction(parts, (tx) => tx.note({ type: 'provider.tested', body: { provider: 'a', verdict: 'refused', ...by } }))
  transaction(parts, (tx) => tx.note({ type: 'provider.changed', body: { provider: 'b', what: 'put', ...by } }))
  expect(refused()).toBe(true)
  transaction(parts, (tx) => tx.note({ type: 'provider.changed', body: { provider: 'a', what: 'put', ...by } }))
  expect(refused()).toBe(false)
  record(parts, id, call('a', 403))
  expect(refused()).toBe(true)
  record(parts, id, call('a', 200))
  expect(refused()).toBe(false)
})

test('status() says how much room is left, and when it is little', async () => {
  const about = { version: '1', url: '', startedAt: 1 }
  const { disk } = await status(parts, owner, about)
  expect(disk).toMatchObject({ low: disk!.free_bytes < parts.config.diskLowBytes })
  const wanting = { ...parts, config: { ...parts.config, diskLowBytes: Number.MAX_SAFE_INTEGER } }
  expect((await status(wanting, owner, about)).disk).toMatchObject({ low: true })
})

test('status() tells of a policy file with an unknown key, and what is in force in its place', async () => {
  const write = (text: string) => {
    writeFileSync(join(parts.config.config, 'policy.yaml'), text)
    parts.policies.reload()
  }
  const trouble = async () => (await status(parts, owner, { version: '1', url: '', startedAt: 1 })).policy_trouble
  write('autonmy: full\n')
  expect(await trouble()).toMatchObject([
    { file: 'policy.yaml', line: 1, message: 'Unknown key "autonmy"', in_force: 'last good' },
  ])
  write('max_concurrent: 1\n')
  expect(await trouble()).toEqual([])
  write('max_concurrent: 1\nno_such_key: 1\n')
  expect(await trouble()).toMatchObject([{ line: 2, in_force: 'last good' }])
})
