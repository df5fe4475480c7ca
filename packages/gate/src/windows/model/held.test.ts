import { runs } from '@anchorhold/protocol/test-runs'
import { afford, type Lease, newLease, recap, release, reserve } from '@anchorhold/core/ledger'
import { memoryDisk } from '@anchorhold/link/memory-disk'
import type { EventBody, NewEvent } from '@anchorhold/protocol/events'
import type { RequestId } from '@anchorhold/protocol/ids'
import fc from 'fast-check'
import { expect, test, vi } from 'vitest'
import type { Account } from '../../money/account.ts'
import { fakeUpstream, streamed } from '../../fake-upstream.ts'
import { Price } from '@anchorhold/protocol/gate-commands'
import { sessionAuthority } from '../../authority.ts'
import { local, plainAuthority, session, small, testGate } from '../../test-gate.ts'
import { heldCalls, type Refusal } from './held.ts'

const usd = 1_000_000_000
const by = { do: 'answer' as const, session, actor: 'owner', grant: null, raises: [] }
const answering = () =>
  fakeUpstream((response) => response.writeHead(200, { 'content-type': 'text/event-stream' }).end(streamed('ok', 10, 5)))

/** A gate whose session has no money and asks for it. */
async function asking(heldMs = 60_000) {
  const upstream = await answering()
  const disk = memoryDisk()
  const it = await testGate({ provider: local(upstream.url), budget_nanos: 0, spend: 'ask' }, disk, { heldMs })
  const of = <T extends NewEvent['type']>(type: T) =>
    it.events.flatMap((event) => (event.type === type ? [event.body as EventBody<T>] : []))
  return {
    ...it,
    disk,
    upstream,
    of,
    call: (path = '/v1/messages', more: object = {}) => it.call(path, small(more)),
    opened: (count: number) => vi.waitFor(() => (expect(of('request.opened')).toHaveLength(count), of('request.opened'))),
    /** As the daemon does it: it has stored the answer, and tells the gate. */
    async allow(request: RequestId) {
      const price = Price.parse(await it.gate.handle({ do: 'price', session, request }))
      const { budget_nanos } = price
      const told = await it.gate.handle({ ...by, request, answer: { decision: 'allow' }, budget_nanos })
      return { budget_nanos, told }
    },
    deny: (request: RequestId, reason: string) => it.gate.handle({ ...by, request, answer: { decision: 'deny', reason } }),
    taken: () => of('request.answered').map(({ answer, actor }) => [answer.decision, actor]),
    async [Symbol.asyncDispose]() {
      await it[Symbol.asyncDispose]()
      await upstream[Symbol.asyncDispose]()
    },
  }
}

test('a call that the budget does not hold waits, and goes on when somebody raises it by what the call needs', async () => {
  await using it = await asking()
  const answer = it.call()
  const [{ id, action }] = (await it.opened(1)) as [EventBody<'request.opened'>]
  expect(action).toMatchObject({
    kind: 'spend',
    provider: 'test',
    model: 'claude-sonnet-5',
    left_nanos: 0,
    budget_nanos: 0,
    short: true,
  })
  expect(it.upstream.received).toEqual([])
  const needed = action.kind === 'spend' && action.needed_nanos
  expect(await it.allow(id)).toEqual({ budget_nanos: needed, told: { told: true } })
  expect((await answer).status).toBe(200)
  expect(it.of('request.told')).toEqual([{ id }])
  // Who answered it is the daemon's to write down.
  expect(it.taken()).toEqual([])
  expect(await it.deny(id, 'too late')).toEqual({ told: true })
})

test('a call that is denied is refused at once, with the reason', async () => {
  await using it = await asking()
  const answer = it.call()
  const [{ id }] = (await it.opened(1)) as [EventBody<'request.opened'>]
  await it.deny(id, 'the month is over')
  const { status, body } = await answer
  expect(status).toBe(403)
  expect(body).toMatch(/is used up|does not hold another call/)
  expect(body).toContain('owner denied it: the month is over')
})

test('a call that nobody answers is refused when its time is over, and can still be answered', async () => {
  await using it = await asking(10)
  const { status, body } = await it.call()
  expect(status).toBe(403)
  expect(body).toContain('Nobody has answered yet')
  const [{ id }] = (await it.opened(1)) as [EventBody<'request.opened'>]
  expect(it.taken()).toEqual([])
  expect(JSON.parse((await it.call('/anchorhold/settle')).body)).toMatchObject({ refused: 'asked' })
  expect(await it.gate.handle({ ...by, request: id, answer: { decision: 'allow' }, budget_nanos: usd })).toEqual({ told: false })
  // It is paid for when it is made again.
  expect((await it.call()).status).toBe(200)
  expect(it.of('request.opened')).toHaveLength(1)
})

test('an agent that hangs up, or is ended, leaves its request open; one that comes back waits for the same answer', async () => {
  await using it = await asking()
  const call = it.start('/v1/messages', JSON.stringify(small()))
  call.on('error', () => {})
  const [{ id }] = (await it.opened(1)) as [EventBody<'request.opened'>]
  call.destroy()
  await vi.waitFor(() =>
    expect(it.gate.handle({ do: 'price', session, request: id })).rejects.toMatchObject({ code: 'not_found' }),
  )
  const again = it.call()
  await vi.waitFor(() => it.gate.handle({ do: 'price', session, request: id }))
  await it.allow(id)
  expect((await again).status).toBe(200)
  expect(it.taken()).toEqual([])
  expect(it.of('request.opened')).toHaveLength(1)
})

test('held calls go on in the order they came, as far as a raised budget goes', async () => {
  await using it = await asking()
  const ended: string[] = []
  const models = ['claude-sonnet-5', 'claude-opus-5', 'claude-haiku-5']
  for (const [index, model] of models.entries()) {
    void it.call('/v1/messages', { model }).then(({ status }) => status === 200 && ended.push(model))
    await it.opened(index + 1)
  }
  const [{ action }] = (await it.opened(3)) as [EventBody<'request.opened'>]
  await it.gate.handle({ do: 'budget', session, budget_nanos: action.kind === 'spend' ? action.needed_nanos : 0 })
  await vi.waitFor(() => expect(ended).toEqual([models[0]]))
  // What the first one left over is not enough for the next.
  expect(it.taken()).toHaveLength(1)
  await it.gate.handle({ do: 'budget', session, budget_nanos: 10 * usd })
  await vi.waitFor(() => expect(new Set(ended)).toEqual(new Set(models)))
  expect(it.taken()).toEqual(models.map(() => ['withdrawn', 'gate']))
})

test('a call that is allowed while its session is paused goes on when it is resumed', async () => {
  await using it = await asking()
  const answer = it.call()
  const [{ id }] = (await it.opened(1)) as [EventBody<'request.opened'>]
  await it.gate.handle({ do: 'pause', session })
  await it.allow(id)
  expect(it.upstream.received).toEqual([])
  await it.gate.handle({ do: 'resume', session })
  expect((await answer).status).toBe(200)
  expect(it.taken()).toEqual([])
})

test('a gate that is started anew knows what the one before had asked, and does not ask again', async () => {
  await using it = await asking()
  void it.call().catch(() => {})
  const [{ id }] = (await it.opened(1)) as [EventBody<'request.opened'>]
  // As it lies on the disk when the gate is killed now.
  const open = { provider: local(it.upstream.url), budget_nanos: 0, spend: 'ask' as const }
  await using next = await testGate(open, it.disk.kill())
  const answer = next.call('/v1/messages', small())
  const price = await vi.waitFor(async () => Price.parse(await next.gate.handle({ do: 'price', session, request: id })))
  await next.gate.handle({ ...by, request: id, answer: { decision: 'allow' }, budget_nanos: price.budget_nanos })
  expect((await answer).status).toBe(200)
  expect(next.events.map(({ type }) => type)).not.toContain('request.opened')
})

test('whatever happens, nobody waits for ever, and what is spent and set aside stays within the cap', async () => {
  const deed = fc.oneof(
    fc.record({ kind: fc.constant('call' as const), nanos: fc.integer({ min: 1, max: 50 }), model: fc.constantFrom('a', 'b') }),
    fc.record({
      kind: fc.constantFrom('allow' as const, 'deny' as const, 'hang up' as const, 'done' as const),
      which: fc.nat(9),
    }),
    fc.record({ kind: fc.constant('budget' as const), nanos: fc.integer({ min: 0, max: 200 }) }),
    fc.record({ kind: fc.constantFrom('pause' as const, 'resume' as const) }),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(deed, { maxLength: 40 }), async (deeds) => {
      let lease: Lease = newLease(0, 0)
      let paused = false
      const events: NewEvent[] = []
      const account = {
        get lease() {
          return lease
        },
        last: 0,
        short: () => [],
        note: (event: NewEvent) => void events.push(event),
      } as unknown as Account
      const none = { opened: [], settled: new Set<RequestId>(), told: new Set<RequestId>(), used: new Set<RequestId>() }
      const flush = async () => {}
      const parts = { terms: plainAuthority, heardTo: 0, before: none, account, flush, now: () => 0, onChange() {} }
      const authority = sessionAuthority(parts)
      const held = heldCalls<number>({ account, authority, waitMs: 1_000_000, isPaused: () => paused })
      const running: number[] = []
      const waiting: AbortController[] = []
      const outcomes: Promise<unknown>[] = []
      const opened = () => events.flatMap((event) => (event.type === 'request.opened' ? [event.body.id] : []))
      const within = () => expect(lease.spentNanos + lease.reservedNanos).toBeLessThanOrEqual(lease.capNanos ?? Infinity)
      for (const one of deeds) {
        if (one.kind === 'call') {
          const abort = new AbortController()
          const wish = { promptNanos: one.nanos, perOutputToken: 0, maxTokens: 1, thinkingTokens: 0 }
          const set = () => {
            const next = afford(lease, wish) === null ? null : reserve(lease, one.nanos)
            if (next === null) return null
            lease = next
            return one.nanos
          }
          const call = { provider: 'p', model: one.model, neededNanos: one.nanos, agent: undefined, reserve: set }
          const outcome = held.hold(call, abort.signal).then((got: number | Refusal) => {
            if (typeof got === 'number') running.push(got)
          })
          outcomes.push(outcome)
          waiting.push(abort)
        } else if (one.kind === 'allow' || one.kind === 'deny') {
          const id = opened()[one.which]
          if (id === undefined) continue
          const price = held.price(id)
          // A budget is only ever raised for a call.
          if (one.kind === 'allow' && price !== null) lease = recap(lease, price.budget_nanos)
          await authority.answer({ request: id, answer: { decision: one.kind }, actor: 'owner', grant: null })
        } else if (one.kind === 'hang up') waiting[one.which]?.abort()
        else if (one.kind === 'budget') {
          lease = recap(lease, Math.max(one.nanos, lease.spentNanos + lease.reservedNanos))
          held.retry()
        } else if (one.kind === 'done') {
          const nanos = running.splice(0, 1)[0]
          if (nanos !== undefined) lease = release(lease, nanos)
          held.retry()
        } else {
          paused = one.kind === 'pause'
          held.retry()
        }
        await new Promise((resolve) => setImmediate(resolve))
        within()
      }
      for (const abort of waiting) abort.abort()
      await Promise.all(outcomes)
      within()
      // A request is taken back once at most.
      const taken = events.flatMap((event) => (event.type === 'request.answered' ? [event.body.id] : []))
      expect(new Set(taken).size).toBe(taken.length)
    }),
    { numRuns: runs(200) },
  )
})
