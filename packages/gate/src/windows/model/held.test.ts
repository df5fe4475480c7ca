import { afford, type Lease, newLease, recap, release, reserve } from '@anchorhold/core/ledger'
import { memoryDisk } from '@anchorhold/link/memory-disk'
import type { EventBody, NewEvent } from '@anchorhold/protocol/events'
import { newRequestId, type RequestId } from '@anchorhold/protocol/ids'
import fc from 'fast-check'
import { randomBytes } from 'node:crypto'
import { expect, test, vi } from 'vitest'
import type { Account } from '../../books.ts'
import { fakeUpstream, streamed } from '../../fake-upstream.ts'
import { local, session, small, testGate } from '../../test-gate.ts'
import { heldCalls, type Refusal } from './held.ts'

const usd = 1_000_000_000
const by = { actor: 'owner', door: 'test' }
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
    call: () => it.call('/v1/messages', small()),
    opened: (count: number) => vi.waitFor(() => (expect(of('request.opened')).toHaveLength(count), of('request.opened'))),
    answers: () => of('request.answered').map(({ answer, actor }) => [answer.decision, actor]),
    async allow(request: RequestId) {
      const price = (await it.gate.handle({ do: 'price', session, request })) as { budget_nanos: number }
      await it.gate.handle({ do: 'answer', session, request, answer: { decision: 'allow' }, ...price, ...by })
      return price.budget_nanos
    },
    deny: (request: RequestId, reason: string) =>
      it.gate.handle({ do: 'answer', session, request, answer: { decision: 'deny', reason }, budget_nanos: null, ...by }),
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
  expect(action).toMatchObject({ kind: 'spend', model: 'claude-sonnet-5', left_nanos: 0, budget_nanos: 0 })
  expect(it.upstream.received).toEqual([])
  expect(await it.allow(id)).toBe(action.kind === 'spend' && action.needed_nanos)
  expect((await answer).status).toBe(200)
  expect(it.answers()).toEqual([['allow', 'owner']])
  await expect(it.deny(id, 'too late')).rejects.toMatchObject({ code: 'conflict' })
})

test('a call that is denied is refused at once, with the reason', async () => {
  await using it = await asking()
  const answer = it.call()
  const [{ id }] = (await it.opened(1)) as [EventBody<'request.opened'>]
  await it.deny(id, 'the month is over')
  const { status, body } = await answer
  expect(status).toBe(403)
  expect(body).toContain('is used up')
  expect(body).toContain('owner denied it: the month is over')
  await expect(it.allow(id)).rejects.toMatchObject({ code: 'conflict' })
  expect(it.answers()).toEqual([['deny', 'owner']])
})

test('a call that nobody answers is refused when its time is over, and the request is withdrawn', async () => {
  await using it = await asking(10)
  const { status, body } = await it.call()
  expect(status).toBe(403)
  expect(body).toContain('Nobody answered')
  expect(it.answers()).toEqual([['withdrawn', 'gate']])
})

test('an agent that hangs up takes its request back; so does the end of its window', async () => {
  await using it = await asking()
  const call = it.start('/v1/messages', JSON.stringify(small()))
  call.on('error', () => {})
  await it.opened(1)
  call.destroy()
  await vi.waitFor(() => expect(it.answers()).toEqual([['withdrawn', 'gate']]))
  const other = it.call().catch(() => null)
  await it.opened(2)
  await it.gate.handle({ do: 'panic' })
  await other
  expect(it.answers()).toHaveLength(2)
  expect(it.upstream.received).toEqual([])
})

test('held calls go on in the order they came, as far as a raised budget goes, answered by whoever raised it', async () => {
  await using it = await asking()
  const ended: number[] = []
  for (let n = 1; n <= 3; n++) {
    void it.call().then(({ status }) => status === 200 && ended.push(n))
    await it.opened(n)
  }
  const [first] = it.of('request.opened')
  const needed = first!.action.kind === 'spend' ? first!.action.needed_nanos : 0
  await it.gate.handle({ do: 'budget', session, budget_nanos: needed, ...by })
  await vi.waitFor(() => expect(ended).toEqual([1]))
  // What the first one left over is not enough for the next.
  expect(it.answers()).toEqual([['allow', 'owner']])
  await it.gate.handle({ do: 'budget', session, budget_nanos: 10 * usd, ...by })
  await vi.waitFor(() => expect(new Set(ended)).toEqual(new Set([1, 2, 3])))
  expect(it.answers()).toEqual(Array.from({ length: 3 }, () => ['allow', 'owner']))
})

test('a call that is allowed while its session is paused goes on when it is resumed', async () => {
  await using it = await asking()
  const answer = it.call()
  const [{ id }] = (await it.opened(1)) as [EventBody<'request.opened'>]
  await it.gate.handle({ do: 'pause', session })
  await it.allow(id)
  expect(it.answers()).toEqual([['allow', 'owner']])
  await expect(it.deny(id, 'no')).rejects.toMatchObject({ code: 'conflict' })
  expect(it.upstream.received).toEqual([])
  await it.gate.handle({ do: 'resume', session })
  expect((await answer).status).toBe(200)
  expect(it.answers()).toHaveLength(1)
})

test('a gate that is started anew takes back what the one before had asked', async () => {
  await using it = await asking()
  void it.call().catch(() => {})
  const [{ id }] = (await it.opened(1)) as [EventBody<'request.opened'>]
  // As it lies on the disk when the gate is killed now.
  await using next = await testGate({ provider: local(it.upstream.url) }, it.disk.kill())
  expect(next.events.flatMap((event) => (event.type === 'request.answered' ? [event.body] : []))).toMatchObject([
    { id, answer: { decision: 'withdrawn' }, actor: 'gate' },
  ])
})

test('whatever happens, a request is settled once, and what is spent and set aside stays within the cap', async () => {
  const deed = fc.oneof(
    fc.record({ kind: fc.constant('call' as const), nanos: fc.integer({ min: 1, max: 50 }) }),
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
        short: () => [],
        note: (event: NewEvent) => void events.push(event),
      } as unknown as Account
      const held = heldCalls<number>({
        account,
        waitMs: 1_000_000,
        newRequest: () => newRequestId(randomBytes),
        isPaused: () => paused,
      })
      const running: number[] = []
      const waiting: { readonly abort: AbortController; readonly id: RequestId }[] = []
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
          void held
            .hold({ model: 'm', neededNanos: one.nanos, agent: undefined, reserve: set }, abort.signal)
            .then((got: number | Refusal) => {
              if (typeof got === 'number') running.push(got)
            })
          const opened = events.findLast((event) => event.type === 'request.opened')
          waiting.push({ abort, id: opened!.body.id })
        } else if (one.kind === 'allow' || one.kind === 'deny') {
          const id = waiting[one.which]?.id
          if (id === undefined) continue
          try {
            // A budget is only ever raised for a call.
            if (one.kind === 'allow') lease = recap(lease, held.price(id).budget_nanos)
            held.answer(id, { answer: { decision: one.kind }, ...by })
          } catch (error) {
            expect(error).toMatchObject({ code: 'conflict' })
          }
        } else if (one.kind === 'hang up') waiting[one.which]?.abort.abort()
        else if (one.kind === 'budget') {
          lease = recap(lease, Math.max(one.nanos, lease.spentNanos + lease.reservedNanos))
          held.retry({ answer: { decision: 'allow' }, ...by })
        } else if (one.kind === 'done') {
          const nanos = running.splice(0, 1)[0]
          if (nanos !== undefined) lease = release(lease, nanos)
          held.retry({ answer: { decision: 'withdrawn' }, ...by })
        } else {
          paused = one.kind === 'pause'
          held.retry({ answer: { decision: 'allow' }, ...by })
        }
        await Promise.resolve()
        within()
      }
      for (const { abort } of waiting) abort.abort()
      const ids = (type: 'request.opened' | 'request.answered') =>
        events.flatMap((event) => (event.type === type ? [event.body.id] : [])).toSorted()
      expect(ids('request.answered')).toEqual(ids('request.opened'))
    }),
    { numRuns: 500 },
  )
})
