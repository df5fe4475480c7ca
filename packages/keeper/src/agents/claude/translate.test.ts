import { runs } from '@anchorhold/protocol/test-runs'
import { bounds, LiveFrame, type NewEvent, parseNewEvent } from '@anchorhold/protocol/events'
import { newPromptId, uuidOfPrompt } from '@anchorhold/protocol/ids'
import fc from 'fast-check'
import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import type { AgentResult } from '../agent.ts'
import { claudeTranslator } from './translate.ts'

function translator() {
  const events: NewEvent[] = []
  const live: LiveFrame[] = []
  const states: string[] = []
  const tasks: number[] = []
  const results: AgentResult[] = []
  let blocks = 0
  const translate = claudeTranslator(
    {
      // As the daemon does: what cannot be parsed again, or not be written as JSON, must not get this far.
      event: (event) => void events.push(parseNewEvent(event.type, JSON.parse(JSON.stringify(event.body)))),
      live: (frame) => void live.push(LiveFrame.parse(frame)),
      state: (state) => void states.push(state),
      tasks: (count) => void tasks.push(count),
      result: (result) => void results.push(result),
    },
    () => `b${++blocks}`,
  )
  return { translate, events, live, states, tasks, results }
}

const streamed = (event: object, parent: string | null = null) => ({ type: 'stream_event', parent_tool_use_id: parent, event })
const begin = (id: string, parent: string | null = null) => streamed({ type: 'message_start', message: { id } }, parent)
const block = (index: number, type: string, parent: string | null = null) =>
  streamed({ type: 'content_block_start', index, content_block: { type } }, parent)
const delta = (index: number, text: string, parent: string | null = null) =>
  streamed({ type: 'content_block_delta', index, delta: { type: 'text_delta', text } }, parent)
const said = (id: string, content: unknown, parent: string | null = null) => ({
  type: 'assistant',
  parent_tool_use_id: parent,
  message: { id, content },
})

test('claudeTranslator() shows text as it streams, and stores the block under the same name', () => {
  const { translate, events, live } = translator()
  for (const message of [begin('m1'), block(0, 'text'), delta(0, 'Hel'), delta(0, 'lo')]) translate(message)
  translate(said('m1', [{ type: 'text', text: 'Hello' }]))
  expect(live).toEqual([
    { type: 'text.delta', block: 'b1', offset: 0, text: 'Hel', parent: null },
    { type: 'text.delta', block: 'b1', offset: 3, text: 'lo', parent: null },
  ])
  expect(events).toEqual([{ type: 'text', body: { block: 'b1', text: 'Hello', parent: null } }])
})

test('claudeTranslator() keeps thinking and text of one message apart', () => {
  const { translate, events, live } = translator()
  translate(begin('m1'))
  translate(block(0, 'thinking'))
  translate(streamed({ type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: 'Hm' } }))
  translate(block(1, 'text'))
  translate(delta(1, 'Yes'))
  translate(said('m1', [{ type: 'thinking', thinking: 'Hm' }]))
  translate(said('m1', [{ type: 'text', text: 'Yes' }]))
  expect(live.map(({ type }) => type)).toEqual(['thinking.delta', 'text.delta'])
  expect(events).toEqual([
    { type: 'thinking', body: { block: 'b1', text: 'Hm', parent: null } },
    { type: 'text', body: { block: 'b2', text: 'Yes', parent: null } },
  ])
})

test('claudeTranslator() keeps the threads of sub-agents apart', () => {
  const { translate, events } = translator()
  for (const parent of [null, 'call1']) {
    translate(begin('m1', parent))
    translate(block(0, 'text', parent))
    translate(delta(0, `from ${parent}`, parent))
  }
  translate(said('m1', [{ type: 'text', text: 'from call1' }], 'call1'))
  translate(said('m1', [{ type: 'text', text: 'from null' }]))
  expect(events).toEqual([
    { type: 'text', body: { block: 'b2', text: 'from call1', parent: 'call1' } },
    { type: 'text', body: { block: 'b1', text: 'from null', parent: null } },
  ])
})

test.each([
  ['a retry', { type: 'system', subtype: 'api_retry', error_status: 529, attempt: 2 }, { superseded: true }],
  ['a new message', begin('m2'), { superseded: true }],
  ['the end of the turn', { type: 'result', subtype: 'error_during_execution', is_error: true }, { partial: true }],
])('claudeTranslator() closes what was cut by %s, and says whether it is said again', (_, cut, how) => {
  const { translate, events } = translator()
  for (const message of [begin('m1'), block(0, 'text'), delta(0, 'Half a sen'), cut]) translate(message)
  expect(events[0]).toEqual({ type: 'text', body: { block: 'b1', text: 'Half a sen', parent: null, ...how } })
})

test('claudeTranslator() does not close twice what was finished', () => {
  const { translate, events } = translator()
  for (const message of [begin('m1'), block(0, 'text'), delta(0, 'Hi'), said('m1', [{ type: 'text', text: 'Hi' }]), begin('m2')])
    translate(message)
  expect(events).toHaveLength(1)
})

test('claudeTranslator() tells of a tool and its result, bounded', () => {
  const { translate, events } = translator()
  const huge = 'x'.repeat(bounds.toolOutputChars + 1)
  translate(said('m1', [{ type: 'tool_use', id: 'call1', name: 'Bash', input: { command: 'ls' } }]))
  translate({ type: 'user', message: { content: [{ type: 'tool_result', tool_use_id: 'call1', content: huge }] } })
  translate(said('m1', [{ type: 'tool_use', id: 'call2', name: 'Write', input: { text: 'x'.repeat(bounds.toolInputChars) } }]))
  translate({
    type: 'user',
    message: {
      content: [
        {
          type: 'tool_result',
          tool_use_id: 'call2',
          is_error: true,
          content: [{ type: 'text', text: 'no' }, { type: 'image' }],
        },
      ],
    },
  })
  expect(events).toMatchObject([
    { type: 'tool.started', body: { call: 'call1', tool: 'Bash', input: { command: 'ls' }, truncated: false } },
    { type: 'tool.finished', body: { call: 'call1', tool: 'Bash', truncated: true, failed: false } },
    { type: 'tool.started', body: { call: 'call2', tool: 'Write', truncated: true } },
    { type: 'tool.finished', body: { call: 'call2', tool: 'Write', output: 'no\n[image]', truncated: false, failed: true } },
  ])
  expect(events[1]?.type === 'tool.finished' && events[1].body.output.length).toBe(bounds.toolOutputChars)
})

test.each([
  ['Bash', 'Exit code 3\nno such file', true, 3],
  ['Bash', 'Exit code 127', true, 127],
  ['Bash', 'Exit code 999', true, undefined],
  ['Bash', 'it said\nExit code 3', true, undefined],
  ['Bash', 'Exit code 3', false, undefined],
  ['Read', 'Exit code 3', true, undefined],
])('claudeTranslator() of %s that ended with %j, failed %s, has the exit code %s', (name, content, failed, code) => {
  const { translate, events } = translator()
  translate(said('m1', [{ type: 'tool_use', id: 'c', name, input: {} }]))
  translate({ type: 'user', message: { content: [{ type: 'tool_result', tool_use_id: 'c', is_error: failed, content }] } })
  expect(events[1]?.type === 'tool.finished' && events[1].body.exit_code).toBe(code)
})

test('claudeTranslator() names the prompts that a result took up', () => {
  const { translate, results } = translator()
  const id = newPromptId(randomBytes)
  translate({ type: 'result', subtype: 'success', user_message_uuids: [uuidOfPrompt(id), 'none of ours', 7] })
  expect(results).toEqual([{ ok: true, why: null, prompts: [id] }])
})

test('claudeTranslator() tells how full the context is after the last call of the main thread', () => {
  const { translate, results } = translator()
  const said = (input: number, parent: string | null) =>
    translate({
      type: 'assistant',
      parent_tool_use_id: parent,
      message: {
        id: 'm',
        model: 'm-1',
        content: [],
        usage: { input_tokens: input, cache_read_input_tokens: 100, output_tokens: 1 },
      },
    })
  const modelUsage = { 'm-1': { contextWindow: 1000 }, 'm-2': { contextWindow: 5 } }
  said(10, null)
  said(700, 'sub')
  translate({ type: 'stream_event', parent_tool_use_id: null, event: { type: 'message_delta', usage: { output_tokens: 20 } } })
  translate({ type: 'result', subtype: 'success', modelUsage })
  translate({ type: 'result', subtype: 'success', modelUsage: { 'm-1': { contextWindow: 'many' } } })
  expect(results.map(({ context }) => context)).toEqual([{ used_tokens: 130, window_tokens: 1000 }, undefined])
})

test.each([
  [{ subtype: 'success', is_error: true, result: 'API Error: 403' }, 'API Error: 403'],
  [{ subtype: 'error_during_execution', errors: ['one', 'two'] }, 'one; two'],
  [{ subtype: 'error_max_turns' }, 'error_max_turns'],
  [{ subtype: { toString: 1 } }, 'unknown'],
])('claudeTranslator() says why a result is none: %j', (result, why) => {
  const { translate, results } = translator()
  translate({ type: 'result', ...result })
  expect(results).toEqual([{ ok: false, why, prompts: [] }])
})

test('claudeTranslator() tells whether the agent runs, and how many tasks live', () => {
  const { translate, states, tasks, events } = translator()
  translate({ type: 'system', subtype: 'session_state_changed', state: 'running' })
  translate({ type: 'system', subtype: 'session_state_changed', state: 'idle' })
  translate({ type: 'system', subtype: 'background_tasks_changed', tasks: [{}, {}] })
  translate({ type: 'system', subtype: 'background_tasks_changed' })
  expect([states, tasks, events]).toEqual([['running', 'idle'], [2, 0], []])
})

test('claudeTranslator() keeps an unknown message as agent.raw, bounded', () => {
  const { translate, events } = translator()
  translate({ type: 'system', subtype: 'brand_new', words: 'x'.repeat(bounds.rawChars) })
  expect(events).toMatchObject([{ type: 'agent.raw', body: { kind: 'system/brand_new', truncated: true } }])
})

test('claudeTranslator() keeps what is nested too deeply for the log, without its contents', () => {
  const { translate, events } = translator()
  const deep = JSON.parse('['.repeat(50_000) + ']'.repeat(50_000)) as unknown
  translate({ type: 'brand_new', deep })
  translate(said('m1', [{ type: 'tool_use', id: 'call1', name: 'Bash', input: deep }]))
  expect(events).toMatchObject([{ type: 'agent.raw' }, { type: 'tool.started', body: { truncated: true } }])
})

test('claudeTranslator() streams no more of a block than can be stored', () => {
  const { translate, live } = translator()
  translate(begin('m1'))
  translate(block(0, 'text'))
  for (let index = 0; index < 3; index++) translate(delta(0, 'x'.repeat(bounds.textChars - 10)))
  expect(live.map((frame) => 'text' in frame && frame.text.length)).toEqual([bounds.textChars - 10, 10])
})

test('claudeTranslator() never throws, whatever a message looks like', () => {
  const names = ['stream_event', 'assistant', 'user', 'result', 'system', 'tool_progress', 'rate_limit_event']
  const subtypes = ['api_retry', 'session_state_changed', 'background_tasks_changed', 'success', 'x']
  const inner = ['message_start', 'content_block_start', 'content_block_delta', 'tool_use', 'tool_result', 'text', 'thinking']
  const hostile = fc.oneof(fc.jsonValue(), fc.constant({ toString: 1 }), fc.constant({ valueOf: null, toString: null }))
  const part = fc.oneof(
    hostile,
    fc.record(
      {
        type: fc.constantFrom(...inner),
        id: hostile,
        index: hostile,
        text: hostile,
        name: hostile,
        input: hostile,
        delta: hostile,
        message: hostile,
        content_block: hostile,
        tool_use_id: hostile,
        content: fc.oneof(hostile, fc.array(hostile)),
      },
      { requiredKeys: ['type'] },
    ),
  )
  const message = fc.oneof(
    hostile,
    fc.record(
      {
        type: fc.constantFrom(...names),
        subtype: fc.oneof(fc.constantFrom(...subtypes), hostile),
        parent_tool_use_id: hostile,
        event: part,
        message: fc.oneof(hostile, fc.record({ id: hostile, content: fc.oneof(hostile, fc.array(part)) })),
        errors: fc.oneof(hostile, fc.array(hostile)),
        user_message_uuids: fc.array(hostile),
        elapsed_time_seconds: hostile,
        attempt: hostile,
        error_status: hostile,
        tasks: hostile,
        state: hostile,
        tool_use_id: hostile,
        tool_name: hostile,
      },
      { requiredKeys: ['type'] },
    ),
  )
  fc.assert(
    fc.property(fc.array(message, { maxLength: 12 }), (messages) => {
      const { translate } = translator()
      for (const one of messages) translate(one)
    }),
    { numRuns: runs(500) },
  )
})

test('claudeTranslator() says which message something was part of, unless a sub-agent said it or it is no id', () => {
  const { translate, events } = translator()
  const uuid = '00000000-0000-4000-8000-000000000000'
  const call = { type: 'tool_use', id: 'c', name: 'Bash', input: {} }
  const messages = [
    { ...said('m1', [{ type: 'text', text: 'Hi' }, call]), uuid },
    { type: 'user', uuid, message: { content: [{ type: 'tool_result', tool_use_id: 'c', content: 'x' }] } },
    { ...said('m2', [{ type: 'text', text: 'sub' }], 'call1'), uuid },
    { ...said('m3', [{ type: 'text', text: 'odd' }]), uuid: '../../etc/passwd' },
  ]
  for (const message of messages) translate(message)
  expect(events.map(({ body }) => ('message' in body ? body.message : null))).toEqual([uuid, uuid, uuid, null, null])
})

test('claudeTranslator() shows no more than is bounded of what never ends, over all threads, and goes on when something has', () => {
  const { translate, live, events } = translator()
  const shown = () => live.reduce((sum, frame) => sum + ('text' in frame ? frame.text.length : 0), 0)
  const most = 2 * bounds.textChars
  const text = 'x'.repeat(bounds.textChars / 2)
  for (let thread = 0; thread < 10; thread++) {
    translate(begin('m', `t${thread}`))
    for (const index of [0, 1, 0])
      for (const message of [block(index, 'text', `t${thread}`), delta(index, text, `t${thread}`)]) translate(message)
  }
  expect([shown(), events]).toEqual([most, []])
  // One is finished, another is cut, and of a third nothing is left in the end.
  translate(said('m', [{ type: 'text', text: 'done' }], 't0'))
  expect(events.map(({ body }) => (body as { text: string }).text)).toEqual(['done'])
  translate(begin('n', 't0'))
  translate(said('m', [{ type: 'text', text: '' }], 't1'))
  const stored = events.reduce((sum, { body }) => sum + (body as { text: string }).text.length, 0) - 'done'.length
  expect(events.slice(1).map(({ body }) => body)).toMatchObject([{ superseded: true }, { partial: true }])
  for (const message of [block(0, 'text', 't0'), ...Array.from({ length: 9 }, () => delta(0, text, 't0'))]) translate(message)
  expect(shown()).toBe(most + Math.min(bounds.textChars, stored + 2 * text.length))
})

test('claudeTranslator() makes no more events of one message than any agent has blocks, and says that there were more', () => {
  const { translate, events } = translator()
  const many = 1_000_000
  translate(
    said(
      'm',
      Array.from({ length: many }, () => ({ type: 'text', text: 'a' })),
    ),
  )
  translate({
    type: 'user',
    message: { content: Array.from({ length: many }, () => ({ type: 'tool_result', tool_use_id: 'x' })) },
  })
  translate({
    type: 'user',
    message: {
      content: [
        { type: 'tool_result', tool_use_id: 'x', content: Array.from({ length: many }, () => ({ type: 'text', text: '' })) },
      ],
    },
  })
  expect(events.filter(({ type }) => type === 'text')).toHaveLength(1000)
  expect(events.filter(({ type }) => type === 'tool.finished')).toHaveLength(1001)
  expect(events.filter(({ type }) => type === 'agent.raw')).toHaveLength(2)
  expect(events.at(-1)).toMatchObject({ body: { truncated: false } })
})
