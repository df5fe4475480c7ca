import { type Event, eventTypes, type LiveFrame, type NewEvent } from '@anchorhold/protocol/events'
import type { RequestId, SessionId } from '@anchorhold/protocol/ids'
import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { eventPrinter, summary } from './show-events.ts'
import { terminal } from './terminal.ts'

const evil = '\u001b[2J\u202e\u0007'
const at = { pos: 1, seq: 1, at: 0, session: 'ses_0000000000000000' as SessionId }
const event = (one: NewEvent): Event => ({ ...one, ...at })
const text = (block: string, words: string, more: { superseded?: true; parent?: string } = {}) =>
  ({ event: event({ type: 'text', body: { block, text: words, ...more } }) }) as const
const delta = (block: string, offset: number, words: string): { live: LiveFrame } => ({
  live: { type: 'text.delta', block, offset, text: words },
})

function screen() {
  const out = new PassThrough()
  const made = terminal(out as unknown as NodeJS.WriteStream, new PassThrough() as unknown as NodeJS.WriteStream)
  const print = eventPrinter(made)
  return { print, made, shown: () => (out.read() as Buffer | null)?.toString() ?? '' }
}

test('eventPrinter() writes every character once, streamed or not', () => {
  const { print, shown } = screen()
  for (const seen of [delta('a', 0, 'Hel'), delta('a', 3, 'lo'), text('a', 'Hello world'), text('b', 'Unstreamed')]) print(seen)
  expect(shown().replaceAll('\n', '|')).toBe('|Hello world||Unstreamed|')
})

test('eventPrinter() repeats nothing that comes again after a reconnect, and skips no gap', () => {
  const { print, shown } = screen()
  for (const seen of [
    delta('a', 0, 'Hello'),
    delta('a', 0, 'Hello wor'),
    delta('a', 20, 'far'),
    text('a', 'Hello world, and far'),
  ])
    print(seen)
  expect(shown().replaceAll('\n', '|')).toBe('|Hello world, and far|')
})

test('eventPrinter() does not cut a block where the end of the one before it comes late', () => {
  const { print, shown } = screen()
  const thinking = (words: string) => ({ event: event({ type: 'thinking', body: { block: 't', text: words } }) })
  for (const seen of [
    { live: { type: 'thinking.delta', block: 't', offset: 0, text: 'Hm' } } as const,
    delta('a', 0, 'Hello '),
    thinking('Hm'),
    delta('a', 6, 'world'),
    text('a', 'Hello world'),
    text('b', 'Next'),
  ])
    print(seen)
  expect(shown().replaceAll('\n', '|')).toBe('thinking|Hm||Hello world||Next|')
})

test('eventPrinter() says that a block was cut off, and shows nothing of sub-agents', () => {
  const { print, shown } = screen()
  print(delta('a', 0, 'Half'))
  print(text('a', 'Half', { superseded: true }))
  print(text('b', 'from below', { parent: 'call' }))
  expect(shown()).toBe('\nHalf\n(cut off, and repeated)\n')
})

test('eventPrinter() adds up what a turn cost, and marks play money', () => {
  const { print, shown } = screen()
  const usage: NewEvent = {
    type: 'usage',
    body: {
      provider: 'rehearsal',
      model: 'm',
      tokens: { input: 1, output: 1, cache_read: 0, cache_write: 0 },
      cost_nanos: 10_000_000,
      simulated: true,
      estimated: false,
      notional: false,
      status: 200,
      duration_ms: 1,
    },
  }
  const ended: NewEvent = { type: 'turn.ended', body: { reason: 'done', why: null, duration_ms: 1500 } }
  for (const one of [usage, usage, ended]) print({ event: event(one) })
  expect(shown()).toBe('✓ done in 1.5 s · $0.0200 of play money (rehearsal, no model was called)\n')
  print({ event: event({ type: 'turn.ended', body: { reason: 'error', why: `broke ${evil}`, duration_ms: 0 } }) })
  expect(shown()).toMatch(/^✗ error in 0\.0 s\n {2}broke ␛\[2J/)
})

const request = 'req_0000000000000000' as RequestId
const samples: readonly NewEvent[] = [
  {
    type: 'session.created',
    body: {
      name: evil,
      rung: 'bwrap',
      provider: 'p',
      model: 'm',
      simulated: false,
      workspace: `/w${evil}`,
      budget_nanos: null,
      forked_from: null,
      actor: evil,
    },
  },
  { type: 'session.state', body: { from: null, to: 'failed', why: evil } },
  { type: 'prompt', body: { id: `prm_${'0'.repeat(32)}` as never, text: evil, images: 2 } },
  { type: 'text', body: { block: 'b', text: evil } },
  { type: 'thinking', body: { block: 'b', text: evil } },
  { type: 'tool.started', body: { call: 'c', tool: evil, input: { command: evil }, truncated: false } },
  { type: 'tool.started', body: { call: 'c', tool: 'x', input: evil, truncated: true } },
  { type: 'tool.finished', body: { call: 'c', tool: 'x', output: `${evil}\n`.repeat(20), truncated: false, failed: true } },
  { type: 'request.opened', body: { id: request, call: null, action: { kind: 'plan', plan: `${evil}\n${evil}` } } },
  {
    type: 'request.opened',
    body: {
      id: request,
      call: null,
      action: {
        kind: 'question',
        questions: [{ question: evil, multi: false, options: [{ label: evil, description: evil }] }],
      },
    },
  },
  { type: 'request.answered', body: { id: request, answer: { decision: 'deny', reason: evil }, actor: evil, door: evil } },
  { type: 'keeper.lost', body: { why: evil } },
  { type: 'notice', body: { level: 'warning', code: 'x', message: evil } },
  { type: 'turn.ended', body: { reason: 'error', why: evil, duration_ms: 1 } },
  { type: 'agent.raw', body: { kind: evil, json: evil, truncated: false } },
]

test.each(samples.map((one) => [one.type, one] as const))('summary() of %s lets nothing steer the terminal', (type, one) => {
  const { made, print, shown } = screen()
  expect(eventTypes).toContain(type)
  print({ event: event(one) })
  const words = `${summary(made, event(one)) ?? ''}${shown()}`
  expect(words).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202e]/)
})

test('eventPrinter() says once that it waits for an answer, where to give it, what became of it, and that it goes on', () => {
  const out = new PassThrough()
  const made = terminal(out as unknown as NodeJS.WriteStream, new PassThrough() as unknown as NodeJS.WriteStream)
  const print = eventPrinter(made, 'http://localhost:7777/inbox')
  const shown = () => (out.read() as Buffer | null)?.toString() ?? ''
  const opened = samples.find(({ type }) => type === 'request.opened')!
  const settled = (answer: { decision: 'allow' | 'deny' | 'expired' | 'withdrawn'; reason?: string }) => {
    print({ event: event(opened) })
    expect(shown()).toMatch(
      /it waits for your answer: anchorhold allow .*\n {2}or: .*\n {2}or: .*\n {2}or in the browser: http:\/\/localhost:7777\/inbox\n$/,
    )
    print({ event: event({ type: 'request.answered', body: { id: request, answer, actor: 'ann', door: 'http' } }) })
    return shown().trim()
  }
  expect(settled({ decision: 'allow' })).toBe('allowed by ann: it goes on')
  expect(settled({ decision: 'deny', reason: 'no' })).toBe('denied by ann: no: it goes on without')
  expect(settled({ decision: 'expired' })).toBe('expired: nobody answered in time: it goes on without')
  expect(settled({ decision: 'withdrawn', reason: 'Interrupted by ann' })).toBe('no longer asked: Interrupted by ann')
})

test('summary() tells what nobody answered from what somebody refused', () => {
  const { made } = screen()
  const body = { kind: 'net', effect: 'deny', by: 'x', digest: 'a'.repeat(64), call: null } as const
  const words = (more: object) => summary(made, event({ type: 'decision', body: { ...body, ...more } }))
  expect([words({}), words({ unanswered: true })]).toEqual(['  denied: x', '  not done: x'])
})

test.each([
  ['AskUserQuestion', { questions: [{ question: 'Tabs?' }] }],
  ['ExitPlanMode', { plan: '# Plan' }],
])('summary() leaves what %s asks to the request that follows', (tool, input) => {
  const words = summary(screen().made, event({ type: 'tool.started', body: { call: 'c', tool, input, truncated: false } }))
  expect(words).toMatch(new RegExp(`^● ${tool} [a-z ]+$`))
})

test('summary() keeps the lines of an answer, and nothing in them steers the terminal', () => {
  const text = 'first\n\nsecond\u001b[2J\n'
  expect(summary(screen().made, event({ type: 'text', body: { block: 'b', text } }))).toBe('first\n\nsecond␛[2J')
})

test('summary() counts in words', () => {
  const finished = (output: string) =>
    summary(
      screen().made,
      event({ type: 'tool.finished', body: { call: 'c', tool: 'x', output, truncated: false, failed: false } }),
    )
  expect(finished('x\n'.repeat(6))).toMatch(/… 1 more line$/)
  expect(finished('x\n'.repeat(7))).toMatch(/… 2 more lines$/)
})

test('summary() says how a request is answered', () => {
  const { made } = screen()
  const words = samples.filter(({ type }) => type === 'request.opened').map((one) => summary(made, event(one)))
  for (const one of words) {
    expect(one).toContain(`anchorhold allow ${request}`)
    expect(one).toContain(`anchorhold later ${request}`)
  }
  const hints = samples.flatMap((one) =>
    one.type === 'request.opened' ? [[one.body.action.kind, summary(made, event(one))]] : [],
  )
  for (const [kind, words] of hints) expect(words?.includes('[--session | --rule]')).toBe(kind !== 'question' && kind !== 'plan')
})
