import type { NewEvent } from '@anchorhold/protocol/events'
import { sessionStates } from '@anchorhold/protocol/sessions'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { after, atBirth, mayDo, states, type Standing } from './session-states.ts'

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
  ['is ready when its keeper dies between turns', [started, turn, done, lost], 'ready'],
  ['stays ready when an idle keeper leaves', [started, turn, done, left], 'ready'],
  ['has failed when its keeper could not start', [broke], 'failed'],
  ['stays paused while running things finish', [started, turn, paused, asked], 'paused'],
  ['stays paused after the turn has ended, since its windows do', [started, turn, paused, done], 'paused'],
  ['stays paused when its keeper leaves', [started, turn, paused, done, left], 'paused'],
  ['is interrupted by a crash though it was paused', [started, turn, paused, lost], 'interrupted'],
  ['stays stopped whatever a late keeper says', [started, turn, stopped, done, left], 'stopped'],
] as const)('a session %s', (_, events, state) => {
  expect(run(...events).state).toBe(state)
})

test('after() never leaves a stopped session by itself', () => {
  const any = fc.constantFrom(started, turn, done, asked, answered, lost, left)
  fc.assert(
    fc.property(fc.array(any), fc.array(any), (before, later) => {
      expect(run(...before, stopped, ...later).state).toBe('stopped')
    }),
  )
})

test('after() leaves a paused session paused until a person moves it, or it breaks', () => {
  const any = fc.constantFrom(started, turn, done, asked, answered, left)
  fc.assert(
    fc.property(fc.array(any), fc.array(any), (before, later) => {
      expect(run(...before, paused, ...later).state).toBe('paused')
    }),
  )
})

test('every state but archived can be archived, and only an archived session can be purged', () => {
  for (const state of sessionStates) {
    expect(mayDo(state, 'archive')).toBe(state !== 'archived')
    expect(mayDo(state, 'purge')).toBe(state === 'archived')
    expect(states[state].meaning).not.toBe('')
  }
})
