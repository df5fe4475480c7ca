import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '@anchorhold/link/clock'
import { memoryDisk } from '@anchorhold/link/memory-disk'
import { openOutbox } from '@anchorhold/link/outbox'
import { eventBodies } from '@anchorhold/protocol/events'
import type { Policy } from '@anchorhold/protocol/policy'
import { expect, test } from 'vitest'
import { sessionAuthority } from '../../../authority.ts'
import { openBooks } from '../../../money/books.ts'
import { rateLimits } from '../../../money/rates.ts'
import type { Outgoing } from '../../../providers/connections.ts'
import type { Upstream } from '../../../providers/providers.ts'
import { plainAuthority, realKey, session, textOf } from '../../../test-gate.ts'
import { scrubberOf } from '../../scrub.ts'
import type { Dialect } from '../dialect.ts'
import { modelWindow } from '../window.ts'

/** How a dialect says what every dialect can say. */
export type DialectSamples = {
  readonly path: string
  readonly contentType: string
  /** A request for a streamed answer; with a tool, one that has used it. */
  readonly request: (asked: { readonly say: string; readonly most: number; readonly tool?: string }) => string
  /** A whole answer that used so many tokens. */
  readonly answer: (text: string, input: number, output: number) => string
  readonly model: string
  /** How long an answer a request that was sent asks for. */
  readonly mostIn: (body: string) => unknown
}

const done = async () => {}
const usd = 1_000_000_000

/** What every dialect promises to all that stands around it: run over the table, and over one that is in no table. */
export function dialectContract(dialect: Dialect, samples: DialectSamples): void {
  const { path, contentType, model } = samples
  const ask = { say: 'hello', most: 4000 }

  async function windowIn(on: {
    readonly answer?: string
    readonly cut?: boolean
    readonly budget?: number
    readonly policy?: Partial<Policy>
  }) {
    const root = await mkdtemp(join(tmpdir(), 'ah-dialect-'))
    const outbox = await openOutbox({ disk: memoryDisk(), now: () => 0 })
    const leases = { nodes: async () => [], putNodes: done, list: async () => [], put: done, remove: done }
    let calls = 0
    const parts = { outbox, leases, now: () => 0, newCall: () => `call ${calls++}`, soon: done, onBroken: () => {} }
    const books = await openBooks(parts)
    const money = { budget_nanos: on.budget ?? usd, spent_nanos: 0, spent_to: 0, closed: false }
    const account = books.open(session, { ...money, nodes: [], agent_cap_nanos: null, simulated: false })
    const sent: Outgoing[] = []
    const upstream: Upstream = {
      ...{ name: 'test', simulated: false, notional: false, billed: true, seller: 'maker', unreachable: (code) => code },
      authorise: async () => ({ key: { auth: 'api_key', secret: realKey }, scrubber: scrubberOf([realKey]) }),
      dial(outgoing, listener) {
        sent.push(outgoing)
        queueMicrotask(() => {
          listener.answered(200, { 'content-type': contentType })
          listener.data(Buffer.from(on.answer ?? samples.answer('ok', 10, 5)))
          if (on.cut === true) listener.failed({ code: 'ECONNRESET', sent: true, unread: false })
          else listener.ended()
        })
        return { pause() {}, resume() {}, cut() {} }
      },
    }
    const window = await modelWindow({
      ...{
        session,
        dialect,
        folder: root,
        account,
        books,
        rates: rateLimits(systemClock),
        now: () => 0,
        log: () => {},
        heldMs: 1,
      },
      terms: { upstream, allow: new Set(), spend: 'stop', rates: undefined },
      authority: sessionAuthority({
        terms: { ...plainAuthority, policy: { ...plainAuthority.policy, ...on.policy } },
        ...{ heardTo: 0, before: books.asks(session), account, flush: books.flush, now: () => 0, onChange() {} },
      }),
    })
    return {
      sent,
      async call(body: string, at = path) {
        const asking = request({ socketPath: join(root, 'model.sock'), path: at, method: 'POST' })
        const [response] = (await once(asking.end(body), 'response')) as [IncomingMessage]
        return { status: response.statusCode, body: await textOf(response).catch(() => 'broken off') }
      },
      async usage() {
        await window.quiet()
        await books.flush()
        const records = await outbox.read(0, Infinity)
        return records.flatMap(({ type, body }) => (type === 'usage' ? [eventBodies.usage.parse(body)] : []))
      },
      async [Symbol.asyncDispose]() {
        await window.close()
        await rm(root, { recursive: true })
      },
    }
  }

  test(`${dialect.name}: what was screened goes out with the credential, comes back as it was said, and is booked`, async () => {
    await using it = await windowIn({})
    expect(await it.call(samples.request(ask))).toEqual({ status: 200, body: samples.answer('ok', 10, 5) })
    const [outgoing] = it.sent
    expect(JSON.parse(outgoing!.body)).toMatchObject({ model })
    expect(outgoing!.body).toContain('hello')
    expect(samples.mostIn(outgoing!.body)).toBe(4000)
    expect(Object.values(outgoing!.headers).filter((value) => value.includes(realKey))).toHaveLength(1)
    expect(await it.usage()).toMatchObject([{ model, tokens: { input: 10, output: 5 }, estimated: false }])
  })

  test(`${dialect.name}: the answer is no longer than what is left pays for`, async () => {
    await using it = await windowIn({ budget: 25_000_000 })
    expect((await it.call(samples.request(ask))).status).toBe(200)
    expect(samples.mostIn(it.sent[0]!.body)).toBeLessThan(4000)
  })

  test(`${dialect.name}: what money, policy and screen refuse is said in the dialect, and nothing is sent`, async () => {
    await using poor = await windowIn({ budget: 1 })
    const { status, body } = await poor.call(samples.request(ask))
    expect(body).toContain('budget')
    expect(dialect.error({ kind: 'refused', message: '' }).status).toBe(status)
    await using it = await windowIn({
      policy: { rules: [{ on: 'tool', match: { tool: 'Bash' }, effect: 'deny' }] as Policy['rules'] },
    })
    expect((await it.call(samples.request({ ...ask, tool: 'Bash' }))).body).toContain('policy')
    expect((await it.call(samples.request({ ...ask, tool: 'Read' }))).status).toBe(200)
    expect((await it.call('{"no":')).status).toBe(dialect.error({ kind: 'malformed', message: '' }).status)
    expect((await it.call('[]')).status).toBe(dialect.error({ kind: 'malformed', message: '' }).status)
    const lost = await it.call(samples.request(ask), '/admin')
    expect(lost).toMatchObject({ status: dialect.error({ kind: 'unknown_path', message: '' }).status })
    expect(lost.body).toContain(dialect.serves.split(' ')[1])
    expect([poor.sent.length, it.sent.length]).toEqual([0, 1])
  })

  test(`${dialect.name}: an answer that breaks off is booked as what it may have cost`, async () => {
    const whole = samples.answer('a long answer '.repeat(40), 10, 200)
    await using it = await windowIn({ answer: whole.slice(0, Math.floor(whole.length / 2)), cut: true })
    await it.call(samples.request(ask)).catch(() => {})
    const [usage] = await it.usage()
    expect(usage).toMatchObject({ estimated: true })
    expect(usage!.cost_nanos).toBeGreaterThan(0)
  })

  test(`${dialect.name}: a credential that the provider says back goes nowhere`, async () => {
    await using it = await windowIn({ answer: samples.answer(realKey, 10, 5) })
    const { body } = await it.call(samples.request(ask))
    expect(body).toHaveLength(samples.answer(realKey, 10, 5).length)
    expect(body).not.toContain(realKey)
  })

  test(`${dialect.name}: one call for one token tells an answer from what is none`, () => {
    const { body } = dialect.probe(model, { auth: 'api_key', secret: realKey })
    expect(samples.mostIn(body)).toBe(1)
    for (const noAnswer of ['', 'null', '[]', '<html>', '{"type":1}']) expect(dialect.readProbe(noAnswer).kind).toBe('unknown')
  })
}
