import type { Event } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ended, reason } from './both-doors.ts'
import { processesOf } from './host.ts'
import { type Installation, installation, until } from './installation.ts'
import { upstream, type Upstream } from './upstream.ts'

const half = 'Half a sentence, and '
let it: Installation
let model: Upstream
/** The provider breaks off once what it said so far has been seen. */
let cut = Promise.withResolvers<void>()
beforeAll(async () => {
  model = await upstream((prompt, _, call) =>
    prompt === 'sing' && call === 1 ? { text: half, cut: cut.promise } : { text: 'All of it.' },
  )
  it = await installation()
  const body = { kind: 'local' as const, base_url: model.url, credential: { from: 'none' as const }, model: 'claude-sonnet-5' }
  await it.api.putProvider({ params: { name: 'cut' }, body: { ...body, test: false } })
})
afterAll(async () => {
  await it[Symbol.asyncDispose]()
  await model[Symbol.asyncDispose]()
})

const texts = (log: readonly Event[]) => log.flatMap((event) => (event.type === 'text' ? [event.body] : []))
/** Waits until somebody who watches has seen so much of what is being said. */
const said = (id: SessionId, chars: number) =>
  it.follow(id, 0, ({ live }) => live?.type === 'text.delta' && live.offset + live.text.length >= chars)

test('an answer that breaks off upstream is asked for again: what was said of it is superseded, and the turn is done', async () => {
  const { id } = await it.api.createSession({ body: { provider: 'cut', prompt: { text: 'sing' } } })
  await said(id, half.length)
  cut.resolve()
  expect(reason(await it.event(id, 0, ended))).toBe('done')
  const log = await it.log(id)
  expect(texts(log)).toMatchObject([{ text: half, superseded: true }, { text: 'All of it.' }])
  expect(texts(log)[1]).not.toHaveProperty('superseded')
  // Both calls are paid for.
  expect(log.filter(({ type }) => type === 'usage')).toHaveLength(2)
})

test('an answer that breaks off because the gate was killed is asked for again by way of the next gate', async () => {
  const [gate] = processesOf(it.state, ({ argv }) => argv.includes('/gate.mjs'))
  const { id } = await it.api.createSession({ body: { provider: 'rehearsal', prompt: { text: 'stream 60 words' } } })
  await said(id, 20)
  process.kill(gate!.pid, 'SIGKILL')
  expect(reason(await it.event(id, 0, ended))).toBe('done')
  const log = await it.log(id)
  const [first, second, ...rest] = texts(log)
  expect(rest).toEqual([])
  expect(first).toMatchObject({ superseded: true })
  expect(first!.text.length).toBeGreaterThanOrEqual(20)
  expect(second!.text.startsWith(first!.text)).toBe(true)
  expect(second).not.toHaveProperty('superseded')
  // The call that the dead gate had dialled is booked in full by the next one.
  const usage = await until(async () => {
    const booked = (await it.log(id)).flatMap((event) => (event.type === 'usage' ? [event.body] : []))
    return booked.length === 2 ? booked : null
  })
  expect(usage.map(({ estimated }) => estimated)).toEqual([true, false])
})

test('an answer that a person cuts off stays as far as it came, and is not called superseded', async () => {
  const { id } = await it.api.createSession({ body: { provider: 'rehearsal', prompt: { text: 'stream 300 words' } } })
  await said(id, 20)
  await it.api.interrupt({ params: { id } })
  expect(reason(await it.event(id, 0, ended))).toBe('interrupted')
  const kept = texts(await it.log(id))
  expect(kept).toHaveLength(1)
  expect(kept[0]!.text.length).toBeGreaterThanOrEqual(20)
  expect(kept[0]).not.toHaveProperty('superseded')
})
