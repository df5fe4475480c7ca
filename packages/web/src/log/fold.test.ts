import type { Event } from '@anchorhold/protocol/events'
import type { PromptId, RequestId } from '@anchorhold/protocol/ids'
import { expect, test } from 'vitest'
import { fold, type Item } from './fold.ts'
import { logOf } from './test-events.ts'

const prompt = `prm_${'a'.repeat(32)}` as PromptId
const request = 'req_0000000000000001' as RequestId
const brief = (item: Item): unknown => {
  switch (item.kind) {
    case 'prompt':
      return ['prompt', item.text, item.queued]
    case 'tool':
      return ['tool', item.tool, item.state, item.output, ...(item.thread.length > 0 ? [item.thread.map(brief)] : [])]
    case 'request':
      return ['request', item.action.kind, item.answer?.decision ?? null]
    case 'turn':
      return ['turn', item.reason, item.costMicros]
    case 'checklist':
      return ['checklist', ...item.todos.map(({ text, state }) => `${state} ${text}`)]
    default:
      return [item.kind, item.text]
  }
}
const briefly = (events: readonly Event[]) => fold(events).map(brief)

const usage = {
  provider: 'rehearsal',
  model: 'm',
  tokens: { input: 1, output: 1, cache_read: 0, cache_write: 0 },
  cost_nanos: 1_500_000,
  simulated: true,
  estimated: false,
  notional: false,
  status: 200,
  duration_ms: 5,
}
const whole = logOf(
  ['prompt.queued', { id: prompt, text: 'do it', images: 0, mode: 'steer', actor: 'ann' }],
  ['prompt', { id: prompt, text: 'do it', images: 0 }],
  ['turn.started', { cause: 'prompt', prompt }],
  ['thinking', { block: 't', text: 'hm' }],
  ['tool.started', { call: 'c1', tool: 'Bash', input: { command: 'ls' }, truncated: false }],
  ['tool.finished', { call: 'c1', tool: 'Bash', output: 'a.txt', truncated: false, failed: false }],
  ['tool.started', { call: 'c2', tool: 'Agent', input: { prompt: 'look' }, truncated: false }],
  ['text', { block: 's1', text: 'I look', parent: 'c2' }],
  ['tool.started', { call: 'c3', tool: 'Read', input: { file_path: 'a' }, truncated: false, parent: 'c2' }],
  ['tool.finished', { call: 'c3', tool: 'Read', output: 'no', truncated: false, failed: true, parent: 'c2' }],
  ['tool.finished', { call: 'c2', tool: 'Agent', output: 'found', truncated: false, failed: false }],
  ['usage', usage],
  ['text', { block: 'b', text: 'done' }],
  ['usage', usage],
  ['turn.ended', { reason: 'done', why: null, duration_ms: 1200 }],
)

test('fold() makes a conversation of events: tools with their ends, sub-agents as threads, the cost of a turn', () => {
  expect(briefly(whole)).toEqual([
    ['prompt', 'do it', null],
    ['thinking', 'hm'],
    ['tool', 'Bash', 'done', 'a.txt'],
    [
      'tool',
      'Agent',
      'done',
      'found',
      [
        ['text', 'I look'],
        ['tool', 'Read', 'failed', 'no'],
      ],
    ],
    ['text', 'done'],
    ['turn', 'done', 3000],
  ])
})

test('fold() of any part of a log loses nothing that the part has', () => {
  for (let from = 0; from < whole.length; from++) {
    for (let to = from; to <= whole.length; to++) {
      const words = JSON.stringify(fold(whole.slice(from, to)))
      for (const event of whole.slice(from, to)) if (event.type === 'text') expect(words).toContain(event.body.text)
    }
  }
  // A call that began before the part is there as soon as it ends.
  expect(briefly(whole.slice(5, 6))).toEqual([['tool', 'Bash', 'done', 'a.txt']])
})

test('fold() keeps the keys of its items when earlier ones come in', () => {
  const late = new Set(fold(whole.slice(4)).map(({ key }) => key))
  const all = fold(whole).map(({ key }) => key)
  expect([...late].every((key) => all.includes(key))).toBe(true)
  expect(new Set(all).size).toBe(all.length)
})

test('fold() shows a queued prompt last until the agent has it, and what was taken back as such', () => {
  const queued = ['prompt.queued', { id: prompt, text: 'and then', images: 0, mode: 'queue', actor: 'ann' }] as const
  expect(briefly(logOf(queued, ['text', { block: 'b', text: 'still here' }]))).toEqual([
    ['text', 'still here'],
    ['prompt', 'and then', 'queue'],
  ])
  expect(briefly(logOf(queued, ['prompt.dropped', { id: prompt, why: 'interrupted' }]))).toEqual([
    ['note', 'Withdrawn: “and then”'],
  ])
})

test('fold() shows a question in the place of the call that asks it, also when the call began earlier', () => {
  const action = { kind: 'question', questions: [{ question: 'Which?', multi: false, options: [{ label: 'A' }] }] } as const
  const log = logOf(
    ['tool.started', { call: 'q', tool: 'AskUserQuestion', input: {}, truncated: false }],
    [
      'request.opened',
      {
        id: request,
        call: 'q',
        action: { ...action, questions: [...action.questions].map((one) => ({ ...one, options: [...one.options] })) },
      },
    ],
    ['request.answered', { id: request, answer: { decision: 'allow', answers: { 'Which?': 'A' } }, actor: 'ann', door: 'http' }],
    ['tool.finished', { call: 'q', tool: 'AskUserQuestion', output: 'A', truncated: false, failed: false }],
  )
  expect(briefly(log)).toEqual([['request', 'question', 'allow']])
  expect(briefly(log.slice(1))).toEqual([['request', 'question', 'allow']])
  expect(briefly(log.slice(0, 2))).toEqual([['request', 'question', null]])
})

test('fold() marks what a turn that was stopped left running', () => {
  const log = logOf(
    ['tool.started', { call: 'c', tool: 'Bash', input: { command: 'sleep 99' }, truncated: false }],
    ['turn.ended', { reason: 'interrupted', why: 'by you', duration_ms: 1 }],
  )
  expect(briefly(log)).toEqual([
    ['tool', 'Bash', 'cut', null],
    ['turn', 'interrupted', 0],
  ])
})

const task = (call: string, tool: string, input: unknown, output: string, failed = false) =>
  [
    ['tool.started', { call, tool, input, truncated: false }],
    ['tool.finished', { call, tool, output, truncated: false, failed }],
  ] as const

test('fold() makes one running list of the tasks of a turn, however they were written', () => {
  const events = logOf(
    ...task('c1', 'TaskCreate', { subject: 'look' }, 'Task #1 created successfully: look'),
    ...task('c2', 'TaskCreate', { subject: 'leap' }, 'Task #2 created successfully: leap'),
    ...task('c3', 'TaskCreate', { subject: 'refused' }, 'no', true),
    ['text', { block: 'b', text: 'go' }],
    ...task('c4', 'TaskUpdate', { taskId: '1', status: 'completed' }, 'Updated'),
    ...task('c5', 'TaskUpdate', { taskId: '2', status: 'in_progress' }, 'Updated'),
    ['turn.ended', { reason: 'done', why: null, duration_ms: 1 }],
    ...task('c6', 'TaskUpdate', { taskId: '2', status: 'deleted' }, 'Updated'),
    ...task('c7', 'TaskUpdate', { taskId: '9', status: 'completed' }, 'Updated'),
  )
  expect(briefly(events)).toEqual([
    ['checklist', 'completed look', 'in_progress leap'],
    ['text', 'go'],
    ['turn', 'done', 0],
    ['checklist', 'completed look', 'completed Task 9'],
  ])
})

test('fold() shows the list that was written last in a turn, in the place of the first', () => {
  const todos = (...states: readonly string[]) => ({ todos: states.map((status, n) => ({ content: `t${n}`, status })) })
  const events = logOf(
    ...task('c1', 'TodoWrite', todos('in_progress', 'pending'), 'ok'),
    ...task('c2', 'TodoWrite', todos('completed', 'in_progress'), 'ok'),
  )
  expect(briefly(events)).toEqual([['checklist', 'completed t0', 'in_progress t1']])
})

test('fold() knows the exit code of a command that told it', () => {
  const [item] = fold(
    logOf(
      ['tool.started', { call: 'c', tool: 'Bash', input: { command: 'false' }, truncated: false }],
      ['tool.finished', { call: 'c', tool: 'Bash', output: 'Exit code 3', truncated: false, failed: true, exit_code: 3 }],
    ),
  )
  expect(item).toMatchObject({ kind: 'tool', state: 'failed', exitCode: 3 })
})
