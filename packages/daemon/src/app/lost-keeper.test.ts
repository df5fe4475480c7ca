import type { LiveFrame, NewEvent } from '@anchorhold/protocol/events'
import { newSessionId, type SessionId } from '@anchorhold/protocol/ids'
import { expect, test } from 'vitest'
import { forgetKeeper, hearOut } from './lost-keeper.ts'
import { record } from './parts.ts'
import { type TestParts, testParts } from './test-parts.ts'

const delta = (block: string, offset: number, text: string): LiveFrame => ({ type: 'text.delta', block, offset, text })
const started: NewEvent = {
  type: 'keeper.started',
  body: { rung: 'bwrap', agent: 'claude', agent_version: '1', limits: [], resumed: false },
}
const turn: NewEvent = { type: 'turn.started', body: { cause: 'prompt', prompt: null } }

function workingSession(parts: TestParts): SessionId {
  const id = newSessionId(parts.random)
  parts.store.sessions.insert({ id, options: {}, runAs: null, conversation: 'c', conversing: false, grants: [] })
  record(parts, id, started, turn)
  return id
}

test('forgetKeeper() keeps what the agent was saying when its keeper died, and interrupts the session', () => {
  using parts = testParts()
  const id = workingSession(parts)
  parts.hub.live(id, delta('b', 0, 'half a '))
  // The file of the dead keeper knows more than was seen, and nothing twice.
  hearOut(parts, id, [delta('b', 0, 'half a '), delta('b', 7, 'sentence')])
  forgetKeeper(parts, id, 'killed')
  const texts = parts.all(id).filter((event) => event.type === 'text')
  expect(texts.map(({ body }) => body)).toEqual([{ block: 'b', text: 'half a sentence', partial: true }])
  expect(parts.store.sessions.get(id)).toMatchObject({ state: 'interrupted', why: 'killed' })
})

test('hearOut() leaves out what is stored already', () => {
  using parts = testParts()
  const id = workingSession(parts)
  record(parts, id, { type: 'text', body: { block: 'b', text: 'whole', parent: null } })
  hearOut(parts, id, [delta('b', 0, 'who')])
  forgetKeeper(parts, id, 'killed')
  expect(parts.all(id).filter((event) => event.type === 'text')).toHaveLength(1)
})

test('forgetKeeper() says nothing of a keeper that told it was leaving', () => {
  using parts = testParts()
  const id = workingSession(parts)
  record(parts, id, { type: 'keeper.left', body: { why: 'idle', failed: false } })
  forgetKeeper(parts, id, 'killed')
  expect(parts.all(id).map(({ type }) => type)).not.toContain('keeper.lost')
})
