import { createHash } from 'node:crypto'
import { defaultPolicy } from '@anchorhold/core/policy/default-policy'
import { digestOf } from '@anchorhold/core/policy/digest'
import type { NetAction } from '@anchorhold/protocol/actions'
import type { NewEvent } from '@anchorhold/protocol/events'
import type { RequestId } from '@anchorhold/protocol/ids'
import type { Authority as Terms, Grant } from '@anchorhold/protocol/authority'
import { expect, test } from 'vitest'
import { sessionAuthority } from './authority.ts'
import type { Asks } from './money/records.ts'

const call: NetAction = { kind: 'net', host: 'example.org', port: 443, method: null, path: null }
const digest = digestOf(call, (text) => createHash('sha256').update(text).digest('hex'))
const request = 'req_0000000000000001' as RequestId
const grant: Grant = { request, digest, pins: [], scope: 'once', rule: null, expires_at: null, actor: 'owner' }
const open = { request, digest, pins: [], expires_at: null }

/** What a gate decides by that was started again: the terms that were kept, and what the one before had written since. */
function startedAgain(terms: Partial<Terms>, before: Partial<Asks>) {
  const events: NewEvent[] = []
  const authority = sessionAuthority({
    terms: { policy: defaultPolicy, grants: [], asked: [], ...terms },
    heardTo: 3,
    before: { opened: [], settled: new Set(), told: new Set(), used: new Set(), ...before },
    account: { note: (event) => void events.push(event), last: 9 },
    flush: async () => {},
    now: Date.now,
    onChange() {},
  })
  const opened = () => events.flatMap((event) => (event.type === 'request.opened' ? [event.body.id] : []))
  const decisions = () =>
    events.flatMap((event) => (event.type === 'decision' && event.body.action?.kind === 'net' ? [event.body.action] : []))
  /** What comes of the call for somebody who does not wait. */
  async function make() {
    const gone = new AbortController()
    const verdict = authority.judge(call, () => gone.signal)
    await new Promise((resolve) => setImmediate(resolve))
    gone.abort()
    return (await verdict).allow
  }
  return { authority, opened, decisions, make }
}

test('a grant that is kept lets its call through, and not when the gate before this one had used it', async () => {
  expect(await startedAgain({ grants: [grant] }, {}).make()).toBe(true)
  const again = startedAgain({ grants: [grant] }, { used: new Set([request]) })
  expect(await again.make()).toBe(false)
  expect(again.opened()).toHaveLength(1)
})

test('who asks again joins the request that the gate before this one had opened, and none that was settled', async () => {
  const kept = startedAgain({ asked: [open] }, {})
  const since = startedAgain({}, { opened: [{ asked: open, n: 5 }] })
  for (const one of [kept, since]) {
    expect(await one.make()).toBe(false)
    expect(one.opened()).toEqual([])
  }
  // The daemon has heard of that record, and does not name it: it is over.
  const over = startedAgain({}, { opened: [{ asked: open, n: 2 }] })
  const settled = startedAgain({ asked: [open] }, { settled: new Set([request]) })
  for (const one of [over, settled]) {
    expect(await one.make()).toBe(false)
    expect(one.opened()).toHaveLength(1)
  }
})

test('an answer that was heard by the gate before this one is not told anew', async () => {
  const answered = { request, answer: { decision: 'deny' as const }, actor: 'owner', grant: null }
  expect(await startedAgain({ asked: [open] }, { told: new Set([request]) }).authority.answer(answered)).toEqual({ told: true })
  expect(await startedAgain({ asked: [open] }, {}).authority.answer(answered)).toEqual({ told: false })
})

test('a decision is told for each method and path of a host once, and so many paths are told apart and no more', async () => {
  const host = (name: string, effect: 'allow' | 'deny') => ({ on: 'net' as const, match: { host: name }, effect })
  const policy = { ...defaultPolicy, rules: [host('example.org', 'allow'), host('evil.example', 'deny')] }
  const { authority, decisions } = startedAgain({ policy }, {})
  const make = async (method: string | null, path: string | null, name = 'example.org') =>
    authority.judge({ ...call, host: name, method, path }, () => AbortSignal.timeout(5000))
  for (const method of [null, 'GET', 'POST', 'DELETE', 'GET', 'POST', 'DELETE']) await make(method, method && '/a?b=1')
  expect(decisions().map(({ method }) => method)).toEqual([null, 'GET', 'POST', 'DELETE'])
  await make('GET', '/a?b=2')
  await make('GET', '/b')
  await make('GET', '/x', 'evil.example')
  await make('GET', '/y', 'evil.example')
  expect(decisions().map(({ path }) => path)).toEqual([null, '/a?b=1', '/a?b=1', '/a?b=1', '/b', '/x', '/y'])
  for (let n = 0; n < 500; n++) await make('GET', `/many/${n}`)
  expect(decisions().length).toBeLessThan(210)
  await make('PATCH', '/many/1')
  expect(decisions().at(-1)?.method).toBe('PATCH')
})

test('a cell that names ever other hosts does not fill the log with what was decided on them', async () => {
  const policy = { ...defaultPolicy, rules: [{ on: 'net' as const, match: { host: '*' }, effect: 'deny' as const }] }
  const { authority, decisions } = startedAgain({ policy }, {})
  for (let n = 0; n < 3000; n++)
    expect((await authority.judge({ ...call, host: `h${n}.example` }, () => AbortSignal.timeout(5000))).allow).toBe(false)
  expect(decisions()).toHaveLength(1000)
})
