import type { NewEvent } from '@anchorhold/protocol/events'
import { sessionStates } from '@anchorhold/protocol/sessions'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { after, atBirth, mayDo, resumesMax, states, type Standing, takesUp, unpaused } from './session-states.ts'

const started: NewEvent = {
  type: 'keeper.started',
  body: { rung: 'bwrap', agent: 'claude', agent_version: '1', limits: [], resumed: false },
}
const turn: NewEvent = { type: 'turn.started', body: { cause: 'prompt', prompt: null } }
const done: NewEvent = { type: 'turn.ended', body: { reason: 'done', why: null, duration_ms: 1 } }
const asked = {
  type: 'request.opened',
  body: { id: 'req_0000000000000000', call: null, action: { kind: 'plan', plan: '' } },
} as NewEvent
const answered = {
  type: 'request.answered',
  body: { id: 'req_0000000000000000', answer: { decision: 'allow' }, actor: 'owner', door: 'http' },
} as NewEvent
const lost: NewEvent = { type: 'keeper.lost', body: { why: 'killed' } }
const left: NewEvent = { type: 'keeper.left', body: { why: 'idle', failed: false } }
const broke: NewEvent = { type: 'keeper.left', body: { why: 'no bwrap', failed: true } }
const paused: NewEvent = { type: 'session.state', body: { from: 'working', to: 'paused', why: null } }
const resumes = { type: 'session.created', body: { on_crash: 'resume' } } as NewEvent
const queued = { type: 'prompt.queued', body: { text: 'Hello' } } as NewEvent
/** What tells an agent that nobody answered its request in time. */
const toldByTheHouse = { type: 'prompt.queued', body: { text: 'Time is over', actor: 'daemon', door: 'none' } } as NewEvent
const prompt = { type: 'prompt', body: { text: 'Hello' } } as NewEvent
const again: NewEvent = { type: 'session.state', body: { from: 'interrupted', to: 'ready', why: null } }
const crashed: NewEvent = { type: 'turn.ended', body: { reason: 'crashed', why: 'out of memory', duration_ms: 1 } }
const stopped: NewEvent = { type: 'session.state', body: { from: 'working', to: 'stopped', why: null } }

const run = (...events: NewEvent[]) => events.reduce<Standing>((standing, event) => after(standing, event).standing, atBirth)

test.each([
  ['is creating at first', [], 'creating'],
  ['is ready once its keeper stands', [started], 'ready'],
  ['works while a turn runs', [started, turn], 'working'],
  ['waits while a request is open', [started, turn, asked], 'waiting'],
  ['waits until the last of several requests is answered', [started, turn, asked, asked, answered], 'waiting'],
  ['works again once it was answered', [started, turn, asked, answered], 'working'],
  ['is ready after a turn', [started, turn, done], 'ready'],
  ['is interrupted when its keeper dies in a turn', [started, turn, lost], 'interrupted'],
  ['is interrupted when its keeper dies between a prompt and its turn', [started, prompt, lost], 'interrupted'],
  ['is ready when its keeper dies between turns', [started, turn, done, lost], 'ready'],
  ['stays interrupted when a keeper is only warmed up', [started, turn, lost, started], 'interrupted'],
  ['stays interrupted when that keeper is lost', [started, turn, lost, started, lost], 'interrupted'],
  ['stays failed when a keeper is only warmed up', [broke, started, left], 'failed'],
  ['works when somebody goes on after a crash', [started, turn, lost, started, turn], 'working'],
  ['stays ready when an idle keeper leaves', [started, turn, done, left], 'ready'],
  ['has failed when its keeper could not start', [broke], 'failed'],
  ['stays paused while running things finish', [started, turn, paused, asked], 'paused'],
  ['stays paused after the turn has ended, since its windows do', [started, turn, paused, done], 'paused'],
  ['stays paused when its keeper leaves', [started, turn, paused, done, left], 'paused'],
  ['stays paused when a crash cuts it short', [started, turn, paused, lost], 'paused'],
  ['stays paused when its cell fails', [started, turn, paused, broke], 'paused'],
  ['stays stopped whatever a late keeper says', [started, turn, stopped, done, left], 'stopped'],
] as const)('a session %s', (_, events, state) => {
  expect(run(...events).state).toBe(state)
})

test.each([
  ['waits for a person unless it was told otherwise', [started, turn, lost], false],
  ['is taken up when its keeper died in a turn', [resumes, started, turn, lost], true],
  ['is taken up when its agent died in a turn', [resumes, started, turn, crashed, left], true],
  ['is taken up when its keeper died between a prompt and its turn', [resumes, started, prompt, lost], true],
  ['is taken up when its keeper died before it stood', [resumes, lost], true],
  ['is taken up again when it was lost on the way there', [resumes, started, turn, lost, again, started, lost], true],
  ['is not taken up between turns', [resumes, started, turn, done, lost], false],
  ['is not taken up when a turn was finished since', [resumes, started, turn, lost, again, started, turn, done], false],
  ['is not taken up when nothing was found to go on with', [resumes, started, turn, lost, again, started, left], false],
  ['is not taken up when a person paused it', [resumes, started, turn, paused, lost], false],
  ['is not taken up when a person stopped it', [resumes, started, turn, stopped, lost], false],
  ['is not taken up when a person has sent a prompt since', [resumes, started, turn, lost, queued], false],
  ['is not taken up when its keeper could not start', [resumes, broke], false],
] as const)('a session that a crash cut short %s', (_, events, taken) => {
  expect(takesUp(run(...events))).toBe(taken)
})

test('a session is taken up three times in a row, and then waits and says why; a finished turn starts the count anew', () => {
  const round = [again, started, turn, lost]
  const rounds = (count: number) => Array.from({ length: count }, () => round).flat()
  const once = [resumes, started, turn, lost]
  expect(takesUp(run(...once, ...rounds(resumesMax - 1)))).toBe(true)
  const last = [...once, ...rounds(resumesMax)]
  expect(takesUp(run(...last))).toBe(false)
  const { standing, why } = after(run(...last.slice(0, -1)), lost)
  expect([standing.state, why]).toEqual([
    'interrupted',
    'killed: taken up again 3 times in a row and cut short each time, it waits for the next prompt',
  ])
  expect(takesUp(run(...once, ...rounds(resumesMax - 1), again, started, turn, done, turn, lost))).toBe(true)
})

test('a prompt that the house itself sends does not start the count of crashes anew: nobody has decided anything', () => {
  const crash = [again, started, turn, lost]
  const log = [resumes, started, turn, lost, ...crash, ...crash]
  expect(run(...log, toldByTheHouse)).toMatchObject({ crashes: 3, state: 'interrupted' })
  expect(takesUp(run(...log, again, toldByTheHouse, started, turn, lost))).toBe(false)
  expect(run(...log, queued).crashes).toBe(0)
})

test('a prompt that the agent was given is work, before its turn has begun', () => {
  expect(run(started, prompt).state).toBe('working')
  expect(run(started, prompt, lost).state).toBe('interrupted')
  expect(run(started, prompt, left).state).toBe('ready')
})

test('a prompt that came too late for a turn is cut short with its keeper', () => {
  const late = { type: 'turn.ended', body: { reason: 'done', why: null, duration_ms: 1, left: ['prm_1'] } } as unknown as NewEvent
  expect(run(started, turn, late).state).toBe('working')
  // Whether the agent goes on is not known of any other.
  expect(run(started, turn, { ...late, body: { ...late.body, reason: 'error' } } as NewEvent).state).toBe('ready')
  expect(run(started, turn, late, turn, done).state).toBe('ready')
  expect(run(started, turn, late, lost).state).toBe('interrupted')
  expect(run(started, turn, late, left).state).toBe('ready')
})

test('after() never leaves a stopped session by itself', () => {
  const any = fc.constantFrom(started, turn, done, asked, answered, lost, left)
  fc.assert(
    fc.property(fc.array(any), fc.array(any), (before, later) => {
      expect(run(...before, stopped, ...later).state).toBe('stopped')
    }),
  )
})

test('after() leaves a paused session paused until a person moves it', () => {
  const any = fc.constantFrom(started, turn, done, asked, answered, lost, crashed, left, broke)
  fc.assert(
    fc.property(fc.array(any), fc.array(any), (before, later) => {
      expect(run(...before, paused, ...later).state).toBe('paused')
    }),
  )
})

test.each([
  ['works on where its turn runs', [started, turn, paused], 'working'],
  ['is ready where it has ended', [started, turn, paused, done], 'ready'],
  ['waits where it has asked', [started, turn, paused, asked], 'waiting'],
  ['shows that a crash cut it short', [started, turn, paused, lost], 'interrupted'],
  [
    'shows that though it would be taken up, where a keeper has come meanwhile',
    [resumes, started, turn, paused, lost, started],
    'interrupted',
  ],
  ['is ready where a crash was over before it was paused', [started, turn, lost, again, paused], 'ready'],
  ['shows that though a keeper came and went', [started, turn, paused, lost, started, left], 'interrupted'],
  ['shows that though it has asked', [started, turn, asked, paused, lost], 'interrupted'],
  ['is ready where somebody has sent a prompt since', [started, turn, paused, lost, queued], 'ready'],
  ['is ready to be taken up where that was wanted', [resumes, started, turn, paused, lost], 'ready'],
] as const)('a session that is not paused any more %s', (_, events, state) => {
  expect(unpaused(run(...events))).toBe(state)
})

test('every state but archived can be archived, and only an archived session can be purged', () => {
  for (const state of sessionStates) {
    expect(mayDo(state, 'archive')).toBe(state !== 'archived')
    expect(mayDo(state, 'purge')).toBe(state === 'archived')
    expect(states[state].meaning).not.toBe('')
  }
})
