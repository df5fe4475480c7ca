import type { LiveFrame, NewEvent } from '@anchorhold/protocol/events'
import { newRequestId, newSessionId, type SessionId } from '@anchorhold/protocol/ids'
import { expect, test } from 'vitest'
import { deliverAll, deliverRest } from '../prompts/deliver.ts'
import { enqueue } from '../prompts/enqueue.ts'
import { forgetKeeper, hearOut } from './lost-keeper.ts'
import { owner, record, type TestParts, testParts } from '../test-parts.ts'
import { transaction } from '../../transaction.ts'

const delta = (block: string, offset: number, text: string, parent?: string | null): LiveFrame => ({
  type: 'text.delta',
  block,
  offset,
  text,
  ...(parent === undefined ? {} : { parent }),
})
const started: NewEvent = {
  type: 'keeper.started',
  body: { rung: 'bwrap', agent: 'claude', agent_version: '1', limits: [], resumed: false },
}
const turn: NewEvent = { type: 'turn.started', body: { cause: 'prompt', prompt: null } }

function workingSession(parts: TestParts, onCrash: 'wait' | 'resume' = 'wait'): SessionId {
  const id = newSessionId(parts.random)
  const more = { name: 'n', rung: 'bwrap', provider: 'rehearsal', model: 'm', simulated: true, workspace: '/w' } as const
  const created: NewEvent = {
    type: 'session.created',
    body: { ...more, budget_nanos: null, forked_from: null, on_crash: onCrash, actor: 'owner' },
  }
  parts.store.sessions.insert({ id, options: {}, runAs: null, conversation: 'c', conversing: false, grants: [] })
  record(parts, id, created, started, turn)
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

test('forgetKeeper() lets windows be that cannot be removed', () => {
  using parts = testParts()
  const id = workingSession(parts)
  const windows = () => `/tmp/${'too-long-a-name'.repeat(100)}`
  forgetKeeper({ ...parts, folders: { ...parts.folders, windows } }, id, 'killed')
  expect(parts.store.sessions.get(id)).toMatchObject({ state: 'interrupted' })
})

test('forgetKeeper() keeps what an agent and its sub-agent were saying at once, each once and under whoever said it', () => {
  using parts = testParts()
  const id = workingSession(parts)
  parts.hub.live(id, delta('mine', 0, 'I wait', null))
  parts.hub.live(id, delta('theirs', 0, 'I look', 'call-1'))
  record(parts, id, { type: 'text', body: { block: 'before', text: 'I began', parent: 'call-1' } })
  hearOut(parts, id, [
    delta('mine', 0, 'I wait', null),
    delta('before', 0, 'I beg', 'call-1'),
    delta('theirs', 0, 'I look', 'call-1'),
    delta('mine', 6, ' for it', null),
    delta('theirs', 6, ' at it', 'call-1'),
  ])
  forgetKeeper(parts, id, 'killed')
  const texts = parts.all(id).flatMap((event) => (event.type === 'text' && event.body.partial ? [event.body] : []))
  expect(texts).toEqual([
    { block: 'mine', text: 'I wait for it', parent: null, partial: true },
    { block: 'theirs', text: 'I look at it', parent: 'call-1', partial: true },
  ])
})

test('hearOut() leaves out what is stored already', () => {
  using parts = testParts()
  const id = workingSession(parts)
  record(parts, id, { type: 'text', body: { block: 'b', text: 'whole', parent: null } })
  hearOut(parts, id, [delta('b', 0, 'who')])
  forgetKeeper(parts, id, 'killed')
  expect(parts.all(id).filter((event) => event.type === 'text')).toHaveLength(1)
})

test.each([
  ['a person answered', { decision: 'allow' }, 'ready'],
  ['time answered', { decision: 'expired' }, 'interrupted'],
] as const)('forgetKeeper() of a session that is to be told what %s leaves it so', (_, answer, state) => {
  using parts = testParts()
  const id = workingSession(parts)
  const request = newRequestId(parts.random)
  record(
    parts,
    id,
    { type: 'request.opened', body: { id: request, call: null, action: { kind: 'plan', plan: 'Act' } } },
    { type: 'request.answered', body: { id: request, answer, actor: 'owner', door: 'test' } },
    { type: 'request.told', body: { id: request } },
  )
  transaction(parts, (tx) => enqueue(tx, owner, id, { text: 'It was settled' }, 'resume'))
  forgetKeeper(parts, id, 'killed')
  expect(parts.store.sessions.get(id)?.state).toBe(state)
})

test('forgetKeeper() says nothing of a keeper that told it was leaving', () => {
  using parts = testParts()
  const id = workingSession(parts)
  record(parts, id, { type: 'keeper.left', body: { why: 'idle', failed: false } })
  forgetKeeper(parts, id, 'killed')
  expect(parts.all(id).map(({ type }) => type)).not.toContain('keeper.lost')
})

test('forgetKeeper() makes a session ready to be taken up where it is to resume, at most three times in a row', async () => {
  using parts = testParts()
  const id = workingSession(parts, 'resume')
  for (let taken = 1; taken <= 3; taken++) {
    forgetKeeper(parts, id, 'killed')
    expect(parts.store.sessions.get(id)).toMatchObject({ state: 'ready', why: `Taken up again after a crash (${taken} of 3)` })
    expect(parts.all(id).findLast((event) => event.type === 'session.state' && event.body.to === 'interrupted')).toMatchObject({
      body: { goes_on: true },
    })
    deliverRest(parts, id)
    expect(parts.keepers.starts).toBe(taken)
    await parts.keepers.ensure(id)
    parts.keepers.vanish(id)
    record(parts, id, started, { type: 'turn.started', body: { cause: 'resume', prompt: null } })
  }
  forgetKeeper(parts, id, 'killed')
  deliverRest(parts, id)
  expect(parts.keepers.starts).toBe(3)
  expect(parts.store.sessions.get(id)).toMatchObject({ state: 'interrupted', why: expect.stringContaining('3 times') as string })
  expect(parts.all(id).at(-1)).not.toMatchObject({ body: { goes_on: true } })
})

test('deliverAll() takes up what a daemon before this one did not live to, and nothing that waits for a person', async () => {
  using parts = testParts()
  const [resumes, waits, working] = [workingSession(parts, 'resume'), workingSession(parts), workingSession(parts, 'resume')]
  for (const id of [resumes, waits]) forgetKeeper(parts, id, 'killed')
  deliverAll(parts)
  expect(parts.keepers.sessions).toEqual([resumes])
  expect(parts.keepers.sessions).not.toContain(working)
  await parts.keepers.ensure(resumes)
})
