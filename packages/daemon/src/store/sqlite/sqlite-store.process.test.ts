import { runs } from '@anchorhold/protocol/test-runs'
import { after, atBirth, type Standing } from '@anchorhold/core/session-states'
import type { NewEvent } from '@anchorhold/protocol/events'
import {
  firstOwner,
  newPromptId,
  newRequestId,
  newSessionId,
  newTokenId,
  newUserId,
  type PromptId,
  type SessionId,
  type UserId,
} from '@anchorhold/protocol/ids'
import Database from 'better-sqlite3'
import fc from 'fast-check'
import { randomBytes } from 'node:crypto'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import type { Store } from '../store.ts'
import { first } from './migrations/001-first.ts'
import { source } from './migrations/002-source.ts'
import { positions } from './migrations/003-positions.ts'
import { unfinished } from './migrations/004-unfinished.ts'
import { forks } from './migrations/005-forks.ts'
import { withdrawn } from './migrations/006-withdrawn.ts'
import { sqliteStore } from './sqlite-store.ts'
import { sqliteTurns } from './turns.ts'
import { sqliteCalls, sqliteSpending, sqliteUsage } from './usage.ts'

let store: Store
beforeEach(() => {
  store = sqliteStore(':memory:')
})
afterEach(() => store.close())

const created = (name = 'A session'): NewEvent => ({
  type: 'session.created',
  body: {
    name,
    rung: 'bwrap',
    provider: 'rehearsal',
    model: 'rehearsal-1',
    simulated: true,
    workspace: '/w',
    budget_nanos: null,
    forked_from: null,
    actor: 'owner',
  },
})
const text = (words: string): NewEvent => ({ type: 'text', body: { block: 'b', text: words } })
const state = (to: Standing['state']): NewEvent => ({ type: 'session.state', body: { from: null, to, why: 'asked' } })
const started: NewEvent = {
  type: 'keeper.started',
  body: { rung: 'bwrap', agent: 'claude', agent_version: '1', limits: [], resumed: false },
}
const turnStarted: NewEvent = { type: 'turn.started', body: { cause: 'prompt', prompt: null } }
const turnEnded: NewEvent = { type: 'turn.ended', body: { reason: 'done', why: null, duration_ms: 1 } }
const left: NewEvent = { type: 'keeper.left', body: { why: 'idle', failed: false } }
const usage = (cost_nanos: number, simulated = false): NewEvent => ({
  type: 'usage',
  body: {
    provider: 'p',
    model: 'm',
    tokens: { input: 1, output: 1, cache_read: 0, cache_write: 0 },
    cost_nanos,
    simulated,
    estimated: false,
    notional: false,
    status: 200,
    duration_ms: 1,
  },
})

function newSession({ name = 'A session', at = 1000, owner = firstOwner, secrets = [] as string[] } = {}): SessionId {
  const id = newSessionId(randomBytes)
  store.atomically(() => {
    const options = secrets.length === 0 ? {} : { secrets }
    store.sessions.insert({ id, ownerId: owner, options, runAs: null, conversation: 'c', conversing: false, grants: [] })
    store.events.append(id, 'daemon', [{ n: null, at, event: created(name) }])
  })
  return id
}
const append = (id: SessionId, event: NewEvent, at = 2000) => store.events.append(id, 'daemon', [{ n: null, at, event }])
const all = (id: SessionId) => store.events.after(id, 0, 10_000)

test('append() numbers the events of a session without a gap, and all by one position', () => {
  const [one, two] = [newSession(), newSession()]
  for (let index = 0; index < 5; index++) for (const id of [one, two]) append(id, text(`${index}`))
  for (const id of [one, two]) expect(all(id).map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5, 6])
  const positions = store.events.afterPos(0, 100, null).map(({ pos }) => pos)
  expect(positions).toEqual(positions.toSorted((a, b) => a - b))
  expect(new Set(positions).size).toBe(12)
})

test.each([1, 2, 20, 31, 32, 33, 70])('append() gives %i events that come together what the log then has of them', (count) => {
  const id = newSession()
  const other = newSession()
  const turns = Array.from({ length: count }, (_, index) => (index % 5 === 0 ? turnStarted : text(`${index}`)))
  const stored = store.events.append(
    id,
    'keeper/x',
    turns.map((event, index) => ({ n: index + 1, at: index, event })),
  )
  store.events.append(other, 'keeper/y', [{ n: 1, at: 1, event: text('later') }])
  const first = stored[0]!
  expect(store.events.after(id, first.seq - 1, 100)).toEqual(stored)
  expect(stored.map(({ pos }) => pos)).toEqual(stored.map((_, index) => first.pos + index))
  expect(store.events.afterPos(stored.at(-1)!.pos, 1, null)).toMatchObject([{ session: other }])
})

test('append() stores a record of a source once', () => {
  const id = newSession()
  const source = `keeper/${id}`
  const entry = { n: 1, at: 1, event: text('once') }
  expect(store.events.append(id, source, [entry, entry])).toHaveLength(1)
  expect(store.events.append(id, source, [entry])).toEqual([])
  expect(store.events.lastOf(source)).toBe(1)
  expect(store.events.lastOf('gate')).toBe(0)
  expect(all(id)).toHaveLength(2)
})

test('a call that cost more than was set aside for it closes the lease of its session until a budget is set', () => {
  const id = newSession()
  const call = { provider: 'p', model: 'm', tokens: { input: 1, output: 1, cache_read: 0, cache_write: 0 } }
  const usage = { ...call, cost_nanos: 5, simulated: true, estimated: false, notional: false, status: 200, duration_ms: 1 }
  const isClosed = () => store.sessions.get(id)!.leaseClosed
  append(id, { type: 'usage', body: usage })
  expect(isClosed()).toBe(false)
  append(id, { type: 'usage', body: { ...usage, exceeds: true } })
  expect(isClosed()).toBe(true)
  append(id, { type: 'session.changed', body: { name: 'other', actor: 'owner', door: 'test' } })
  expect(isClosed()).toBe(true)
  append(id, { type: 'session.changed', body: { budget_nanos: 9, actor: 'owner', door: 'test' } })
  expect(isClosed()).toBe(false)
})

test('append() lets go of what is said of a session that is not there', () => {
  expect(append(newSessionId(randomBytes), text('late'))).toEqual([])
})

test('append() stores nothing when the transaction around it fails', () => {
  const id = newSession()
  expect(() =>
    store.atomically(() => {
      append(id, text('gone'))
      throw new Error('no')
    }),
  ).toThrow('no')
  expect(all(id)).toHaveLength(1)
  expect(append(id, text('next'))[0]?.seq).toBe(2)
})

test('the state of a session is what its events fold to, in every order', () => {
  const any = fc.constantFrom(
    started,
    turnStarted,
    turnEnded,
    left,
    { type: 'turn.ended', body: { reason: 'crashed', why: 'it fell over', duration_ms: 1 } } as NewEvent,
    { type: 'keeper.lost', body: { why: 'killed' } } as NewEvent,
    { type: 'keeper.left', body: { why: 'no bwrap', failed: true } } as NewEvent,
    state('paused'),
    state('ready'),
    state('stopped'),
    state('archived'),
  )
  fc.assert(
    fc.property(fc.array(any, { maxLength: 30 }), (events) => {
      const id = newSession()
      for (const event of events) append(id, event)
      const log = all(id)
      const row = store.sessions.get(id)!
      expect(log.reduce<Standing>((standing, event) => after(standing, event).standing, atBirth)).toEqual(row.standing)
      expect(row.state).toBe(row.standing.state)
      // Every move is in the log, so its last word is the state.
      expect(log.findLast((event) => event.type === 'session.state')?.body.to ?? 'creating').toBe(row.state)
      expect(log.map(({ seq }) => seq)).toEqual(log.map((_, index) => index + 1))
      expect(row.last_seq).toBe(log.length)
      expect(row.archived_at === null).toBe(row.state !== 'archived')
    }),
    { numRuns: runs(60) },
  )
})

test('append() takes nothing for activity that comes when nobody does anything any more', () => {
  const id = newSession({ name: 'Rests', at: 5 })
  append(id, turnStarted, 2000)
  append(id, turnEnded, 3000)
  append(id, { type: 'keeper.left', body: { why: 'idle', failed: false } }, 300_000)
  expect(store.sessions.get(id)).toMatchObject({ active_at: 3000 })
  append(id, { type: 'keeper.lost', body: { why: 'killed' } }, 400_000)
  expect(store.sessions.get(id)).toMatchObject({ active_at: 3000 })
  // In the middle of a turn it is what befell the work.
  append(id, turnStarted, 500_000)
  append(id, { type: 'keeper.lost', body: { why: 'killed' } }, 600_000)
  expect(store.sessions.get(id)).toMatchObject({ state: 'interrupted', active_at: 600_000 })
})

test('append() brings the row of a session up to date', () => {
  const id = newSession({ name: 'First', at: 5 })
  append(id, { type: 'session.changed', body: { name: 'Second', model: 'other', budget_nanos: 5_000_001, actor: 'owner' } })
  append(id, turnStarted, 3000)
  append(id, usage(1500))
  expect(store.sessions.get(id)).toMatchObject({
    name: 'Second',
    model: 'other',
    budgetNanos: 5_000_001,
    budget_micros: 5001,
    turns: 1,
    conversing: true,
    created_at: 5,
    active_at: 3000,
    costNanos: 1500,
    cost_micros: 2,
    state: 'working',
  })
})

test('a prompt leaves the queue when it is delivered or dropped; a crash leaves it unfinished, with its images', () => {
  const id = newSession()
  const prompts = [1, 2, 3].map((at) => {
    const prompt = newPromptId(randomBytes)
    const images = [{ media_type: 'image/png' as const, data: 'AAAA' }]
    store.prompts.insert(
      { id: prompt, session: id, text: `${at}`, images, mode: 'queue', cause: 'prompt', queuedAt: 7 },
      `key ${at}`,
    )
    return prompt
  })
  expect(store.prompts.queued(id).map((prompt) => prompt.id)).toEqual(prompts)
  expect(store.prompts.sessionsWithQueued()).toEqual([id])
  append(id, { type: 'prompt', body: { id: prompts[0]!, text: '1', images: 1 } })
  append(id, { type: 'prompt.dropped', body: { id: prompts[1]!, why: 'asked' } })
  expect(store.prompts.queued(id).map((prompt) => prompt.id)).toEqual([prompts[2]])
  expect(store.prompts.get(prompts[1]!)?.images).toEqual([])
  const end = (reason: 'crashed' | 'done', left: readonly PromptId[] = []) =>
    append(id, { type: 'turn.ended', body: { reason, why: null, duration_ms: 1, left: [...left] } })
  end('crashed')
  end('done', [prompts[0]!])
  expect(store.prompts.unfinished(id).map((prompt) => [prompt.id, prompt.images.length])).toEqual([[prompts[0], 1]])
  end('done')
  expect(store.prompts.unfinished(id)).toEqual([])
  expect(store.prompts.get(prompts[0]!)?.images).toEqual([])
  expect(store.prompts.byKey(id, 'key 1')?.id).toBe(prompts[0])
  expect(store.prompts.byKey(newSession(), 'key 1')).toBeNull()
  expect(store.sessions.get(id)?.queued_prompts).toBe(1)
})

test('a session cannot take another session’s prompt or request out of its hands', () => {
  const [mine, theirs] = [newSession(), newSession()]
  const prompt = newPromptId(randomBytes)
  store.prompts.insert({ id: prompt, session: mine, text: '', images: [], mode: 'steer', cause: 'prompt', queuedAt: 1 }, null)
  append(theirs, { type: 'prompt', body: { id: prompt, text: '', images: 0 } })
  expect(store.prompts.queued(mine)).toHaveLength(1)
  const request = newRequestId(randomBytes)
  append(mine, { type: 'request.opened', body: { id: request, call: null, action: { kind: 'plan', plan: 'p' } } })
  append(theirs, {
    type: 'request.answered',
    body: { id: request, answer: { decision: 'allow' }, actor: 'them', door: 'x' },
  })
  expect(store.requests.get(request)?.answer).toBeNull()
})

test('a request says which secrets the cell of its session holds', () => {
  const held = (secrets: string[]) => {
    const request = newRequestId(randomBytes)
    append(newSession({ secrets }), {
      type: 'request.opened',
      body: { id: request, call: null, action: { kind: 'plan', plan: 'p' } },
    })
    return store.requests.get(request)?.secrets_inside
  }
  expect([held(['deploy-key']), held([])]).toEqual([['deploy-key'], []])
})

test('a request is listed while it is open, and its first answer stays', () => {
  const id = newSession()
  const request = newRequestId(randomBytes)
  const opened: NewEvent = { type: 'request.opened', body: { id: request, call: null, action: { kind: 'plan', plan: 'p' } } }
  append(id, opened)
  // A second one of the same name is a bug of its keeper's, and must not stop the log.
  append(id, opened)
  expect(store.requests.list({ openOnly: true, session: id, seenBy: null }).map((one) => one.id)).toEqual([request])
  expect(store.sessions.get(id)?.open_requests).toBe(1)
  for (const decision of ['allow', 'deny'] as const)
    append(id, { type: 'request.answered', body: { id: request, answer: { decision }, actor: decision, door: 'http' } })
  expect(store.requests.get(request)).toMatchObject({ answer: { decision: 'allow' }, answered_by: 'allow' })
  expect(store.requests.list({ openOnly: true, session: null, seenBy: null })).toEqual([])
  expect(store.requests.list({ openOnly: false, session: id, seenBy: null })).toHaveLength(1)
})

test('a session that asks for much does not hide what others wait for', () => {
  const [patient, loud] = [newSession(), newSession()]
  const ask = (session: SessionId, times: number) => {
    for (let n = 0; n < times; n++)
      append(session, {
        type: 'request.opened',
        body: { id: newRequestId(randomBytes), call: null, action: { kind: 'plan', plan: `${n}` } },
      })
  }
  ask(patient, 1)
  ask(loud, 600)
  const sessions = store.requests.list({ openOnly: true, session: null, seenBy: null }).map(({ session }) => session)
  expect([sessions.filter((one) => one === patient).length, sessions.filter((one) => one === loud).length]).toEqual([1, 20])
  expect(store.requests.list({ openOnly: true, session: loud, seenBy: null })).toHaveLength(500)
  expect(store.requests.waiting().map(({ session }) => session)).toEqual(expect.arrayContaining([patient, loud]))
})

test('events are read in pages, forwards and backwards', () => {
  const id = newSession()
  for (let index = 2; index <= 10; index++) append(id, text(`${index}`))
  expect(store.events.after(id, 3, 4).map(({ seq }) => seq)).toEqual([4, 5, 6, 7])
  expect(store.events.before(id, 8, 3).map(({ seq }) => seq)).toEqual([5, 6, 7])
  expect(store.events.before(id, 1, 3)).toEqual([])
  expect(store.events.after(id, 10, 3)).toEqual([])
  expect(store.events.beforePos(Number.MAX_SAFE_INTEGER, 1, null)[0]?.seq).toBe(10)
})

test('events of all sessions are read backwards by whoever sees some of them, from the last that they see', () => {
  const [ada, bob] = ['ada', 'bob'].map((name) => {
    const id = newUserId(randomBytes)
    store.people.insert({ id, name, role: 'member', policy: null, created_at: 1 })
    return id
  })
  const [hers, mine] = [newSession({ owner: ada! }), newSession()]
  for (let i = 0; i < 3; i++) for (const id of [hers, mine, mine]) append(id, text(`${i}`))
  const page = (before: number, limit: number, user = ada!) => store.events.beforePos(before, limit, user)
  expect(page(Number.MAX_SAFE_INTEGER, 2).map(({ session, seq }) => [session, seq])).toEqual([
    [hers, 3],
    [hers, 4],
  ])
  const [third] = page(Number.MAX_SAFE_INTEGER, 2)
  expect(page(third!.pos, 10).map(({ seq }) => seq)).toEqual([1, 2])
  expect(page(Number.MAX_SAFE_INTEGER, 10, bob)).toEqual([])
})

test('list() gives the most recently active first, and page after page each once', () => {
  const ids = [10, 30, 20].map((at) => newSession({ at }))
  const filter = { archived: false, state: null, before: null, limit: 2, seenBy: null }
  const page = store.sessions.list(filter)
  expect(page.map(({ id }) => id)).toEqual([ids[1], ids[2]])
  expect(store.sessions.list({ ...filter, before: page.at(-1)!.active_at }).map(({ id }) => id)).toEqual([ids[0]])
  append(ids[0]!, state('archived'))
  expect(store.sessions.list({ ...filter, archived: true }).map(({ id }) => id)).toEqual([ids[0]])
  expect(store.sessions.list({ ...filter, state: 'creating' })).toHaveLength(2)
  expect(store.sessions.counts(null)).toEqual({ creating: 2, archived: 1 })
})

test('list() gives those that wait for an answer, however long ago they were active', () => {
  const [asks, waits] = [newSession({ at: 10 }), newSession({ at: 20 }), newSession({ at: 30 })]
  const request = newRequestId(randomBytes)
  append(asks, { type: 'request.opened', body: { id: request, call: null, action: { kind: 'plan', plan: 'p' } } })
  append(waits, state('waiting'))
  const needing = () =>
    store.sessions
      .list({ archived: false, state: null, needing: true, before: null, limit: 10, seenBy: null })
      .map(({ id }) => id)
  expect(needing().toSorted()).toEqual([asks, waits].toSorted())
  append(asks, { type: 'request.answered', body: { id: request, answer: { decision: 'allow' }, actor: 'me', door: 'web' } })
  expect(needing()).toEqual([waits])
})

test('tended() gives the sessions that a keeper tends', () => {
  const [one, two] = [newSession(), newSession()]
  append(one, started)
  append(two, started)
  append(two, left)
  expect(store.sessions.tended().map(({ id }) => id)).toEqual([one])
})

test('search() finds words in prompts, text, tools and names, with the place', () => {
  const id = newSession({ name: 'Mending the roof' })
  append(id, text('The chimney is crooked'))
  append(id, {
    type: 'tool.started',
    body: { call: 'c', tool: 'Bash', input: { command: 'ls chimneys' }, truncated: false },
  })
  append(newSession(), text('Another chimney'))
  const find = (q: string, session: SessionId | null = id) =>
    store.search({ q, session, seenBy: null, limit: 10, perSession: null }).hits
  expect(find('chimney').map(({ seq }) => seq)).toEqual(expect.arrayContaining([2, 3]))
  expect(find('chimney', null)).toHaveLength(3)
  expect(find('chimney crook')[0]).toMatchObject({ session: id, seq: 2, snippet: expect.stringContaining('«') })
  expect(find('roof')).toHaveLength(1)
  expect(find('nothing of the kind')).toEqual([])
})

test('search() finds what was thought, asked, answered, refused and noticed, and sessions by what they are called', () => {
  const id = newSession({ name: 'Kitchen' })
  const request = newRequestId(randomBytes)
  append(id, { type: 'session.changed', body: { name: 'Larder', actor: 'me' } })
  append(id, { type: 'thinking', body: { block: 't', text: 'perhaps marmalade' } })
  append(id, { type: 'request.opened', body: { id: request, call: null, action: { kind: 'plan', plan: 'boil quinces' } } })
  const answer = { decision: 'deny', reason: 'no sugar left' } as const
  append(id, { type: 'request.answered', body: { id: request, answer, actor: 'me', door: 'web' } })
  append(id, { type: 'notice', body: { level: 'warning', code: 'x', message: 'the pantry is dark' } })
  append(id, { type: 'workspace.at', body: { branch: 'preserves/plum', commit: null } })
  const find = (q: string) => store.search({ q, session: null, seenBy: null, limit: 10, perSession: null })
  expect(['marmalade', 'quinces', 'sugar', 'pantry'].map((q) => find(q).hits.map(({ type }) => type))).toEqual([
    ['thinking'],
    ['request.opened'],
    ['request.answered'],
    ['notice'],
  ])
  expect(find('larder').sessions).toEqual([id])
  expect(find('LAR plum').sessions).toEqual([id])
  expect(find('larder cherry').sessions).toEqual([])
  expect(store.search({ q: 'larder', session: null, seenBy: newUserId(randomBytes), limit: 10, perSession: null })).toEqual({
    hits: [],
    sessions: [],
    more: false,
    deeper: [],
  })
})

test('search() shows of each hit its own text, and of no session what its reader does not see', () => {
  const stranger = newUserId(randomBytes)
  store.people.insert({ id: stranger, name: 'ann', role: 'member', policy: null, created_at: 1 })
  const [mine, hers] = [newSession(), newSession({ owner: stranger })]
  append(mine, text('zebra of mine'))
  append(hers, text('zebra of hers'))
  append(hers, text('another zebra of hers'))
  const snippets = (seenBy: UserId | null) =>
    store.search({ q: 'zebra', session: null, seenBy, limit: 5, perSession: null }).hits.map(({ snippet }) => snippet)
  expect(snippets(null).toSorted()).toEqual(['another «zebra» of hers', '«zebra» of hers', '«zebra» of mine'])
  expect(snippets(stranger).toSorted()).toEqual(['another «zebra» of hers', '«zebra» of hers'])
})

test('search() weighs the newest of what very many texts hold, and says that there is more', () => {
  const id = newSession()
  append(id, text('zebra zebra zebra'))
  for (let i = 0; i < 60; i++)
    store.events.append(
      id,
      'daemon',
      Array.from({ length: 100 }, () => ({ n: null, at: 2000, event: text('a zebra among others') })),
    )
  while (store.index());
  const found = (q: string) => store.search({ q, session: id, seenBy: null, limit: 5, perSession: null })
  expect(found('zebra')).toMatchObject({
    more: true,
    hits: Array.from({ length: 5 }, () => ({ snippet: 'a «zebra» among others' })),
  })
  expect(found('z').hits).toEqual([])
  expect(found('ze').hits).toHaveLength(5)
})

test('search() takes in so much of what was said before it answers, and the rest later: everybody waits meanwhile', () => {
  const id = newSession()
  const said = Array.from({ length: 4500 }, (_, i) => ({ n: null, at: 2000, event: text(i === 4499 ? 'hedgehog' : `line ${i}`) }))
  store.events.append(id, 'daemon', said)
  const found = () => store.search({ q: 'hedgehog', session: id, seenBy: null, limit: 5, perSession: null }).hits.length
  expect(found()).toBe(0)
  expect(found()).toBe(1)
})

test('search() gives each session its share, and says where there is more', () => {
  const [chatty, quiet] = [newSession(), newSession()]
  for (let n = 0; n < 8; n++) append(chatty, text(`gravel ${n}`))
  append(quiet, text('gravel, and very much else that makes it fit less well than all the others do'))
  const find = (limit: number, perSession: number | null) =>
    store.search({ q: 'gravel', session: null, seenBy: null, limit, perSession })
  const shared = find(10, 3)
  expect(shared.hits.map(({ session }) => session)).toEqual([chatty, chatty, chatty, quiet])
  expect(shared).toMatchObject({ more: false, deeper: [chatty] })
  expect(find(3, 3)).toMatchObject({ more: true, deeper: [chatty] })
  expect(find(5, null)).toMatchObject({ more: true, deeper: [] })
  expect(find(9, null)).toMatchObject({ more: false })
})

test('search() takes any words for words, and never for a query of its own', () => {
  const id = newSession()
  append(id, text('plain words AND NOT NEAR (a b) "quoted" col:umn'))
  for (const q of [
    '"',
    '""',
    '*',
    ' ',
    'a OR',
    'NOT',
    '(',
    'NEAR(',
    'text:',
    '^a',
    '{x}',
    '-a',
    '+',
    "'",
    '\0',
    '\u{1f600}',
    '«»',
  ])
    expect(() => store.search({ q, session: null, seenBy: null, limit: 5, perSession: 2 })).not.toThrow()
  fc.assert(
    fc.property(
      fc.string({ minLength: 1, maxLength: 60 }),
      (q) => void store.search({ q, session: null, seenBy: null, limit: 5, perSession: 2 }),
    ),
  )
})

test('usage() adds up to the nano-dollar, and keeps play money apart', () => {
  const nanos = fc.integer({ min: 0, max: 5_000_000_000 })
  fc.assert(
    fc.property(fc.array(fc.tuple(nanos, fc.boolean(), fc.nat(2)), { minLength: 1, maxLength: 30 }), (calls) => {
      const id = newSession()
      for (const [cost, simulated, day] of calls) append(id, usage(cost, simulated), day * 86_400_000)
      const sum = (which: boolean) => calls.filter(([, simulated]) => simulated === which).reduce((all, [cost]) => all + cost, 0)
      const shown = store.usage({ session: id, seenBy: null })
      expect(shown.total.cost_micros).toBe(Math.ceil(sum(false) / 1000))
      expect(shown.simulated.cost_micros).toBe(Math.ceil(sum(true) / 1000))
      expect(shown.total.calls + shown.simulated.calls).toBe(calls.length)
      expect(shown.days.reduce((all, { calls: count }) => all + count, 0)).toBe(calls.length)
      expect(store.sessions.get(id)?.costNanos).toBe(sum(false) + sum(true))
    }),
    { numRuns: runs(40) },
  )
})

test('what was spent in a tick of weeks is known after a restart', () => {
  const folder = mkdtempSync(join(tmpdir(), 'ah-store-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const [kept, path, dayMs] = [store, join(folder, 'test.db'), 24 * 60 * 60 * 1000]
  onTestFinished(() => void (store = kept))
  store = sqliteStore(path)
  const id = newSession()
  const call = usage(5) as Extract<NewEvent, { type: 'usage' }>
  for (const day of [70, 71, 76]) append(id, { ...call, body: { ...call.body, nodes: ['owner'] } }, day * dayMs)
  store.close()
  const again = sqliteStore(path)
  onTestFinished(() => again.close())
  expect(again.ledger.spent('owner', false, 76 * dayMs, 7 * dayMs)).toMatchObject({ tick: 15, day: 5 })
})

test('purge() leaves nothing of a session, and nothing but that', () => {
  const path = join(mkdtempSync(join(tmpdir(), 'ah-store-')), 'test.db')
  const kept = store
  store = sqliteStore(path)
  const [id, other] = [newSession({ name: 'secretword' }), newSession()]
  append(id, text('secretword'))
  append(other, text('otherword'))
  append(id, usage(5))
  append(id, {
    type: 'request.opened',
    body: { id: newRequestId(randomBytes), call: null, action: { kind: 'plan', plan: 'secretword' } },
  })
  const prompt = newPromptId(randomBytes)
  const row = { id: prompt, session: id, text: 'secretword', images: [], mode: 'steer', cause: 'prompt', queuedAt: 1 } as const
  store.prompts.insert(row, 'k')
  store.tokens.keepSessionKey('owner', 'key', id, 'digest')
  store.sessions.purge(id)
  expect(store.sessions.get(id)).toBeNull()
  expect(store.search({ q: 'secretword', session: null, seenBy: null, limit: 5, perSession: null }).hits).toEqual([])
  expect(store.search({ q: 'otherword', session: null, seenBy: null, limit: 5, perSession: null }).hits).toHaveLength(1)
  store.close()
  store = kept
  const db = new Database(path)
  const tables = db.prepare<[], { name: string }>(`select name from sqlite_schema where type = 'table'`).all()
  for (const { name } of tables) {
    const rows = JSON.stringify(db.prepare(`select * from "${name}"`).all())
    expect([name, rows.includes(id) || rows.includes('secretword')]).toEqual([name, false])
  }
  db.close()
  rmSync(join(path, '..'), { recursive: true })
})

test('takeUid() gives no user anew whose session was purged: its files may not be off the disk yet', () => {
  const id = newSessionId(randomBytes)
  store.sessions.insert({ id, options: {}, runAs: { uid: 107, gid: 107 }, conversation: 'c', conversing: false, grants: [] })
  store.sessions.purge(id)
  expect([store.sessions.takeUid(100), store.sessions.takeUid(100)]).toEqual([108, 109])
})

test('purge() keeps what the session has cost in every sum, without its name, and its owner still sees it', () => {
  const ada = newUserId(randomBytes)
  store.people.insert({ id: ada, name: 'ada', role: 'member', policy: null, created_at: 1 })
  const [id, other] = [newSession({ owner: ada, name: 'secretword' }), newSession()]
  append(id, usage(1501))
  append(id, usage(7, true))
  append(id, usage(20), 86_400_000)
  append(other, usage(300))
  const sums = (seenBy: typeof ada | null) => {
    const { total, simulated, days, models } = store.usage({ session: null, seenBy })
    const by = (['day', 'model'] as const).map((way) => store.spending({ by: way, session: null, seenBy, since: null }))
    return { total, simulated, days, models, by }
  }
  const before = [sums(null), sums(ada)]
  store.sessions.purge(id)
  expect([sums(null), sums(ada)]).toEqual(before)
  // One that the gate books late, when nobody knows any more whose it was.
  store.events.append(id, 'gate', [{ n: 1, at: 0, event: usage(5) }])
  expect(store.usage({ session: null, seenBy: null }).removed).toEqual([
    { simulated: false, calls: 3, cost_micros: 2 },
    { simulated: true, calls: 1, cost_micros: 1 },
  ])
  const rows = store.spending({ by: 'session', session: null, seenBy: null, since: null })
  expect(rows.map(({ key, name, simulated, cost_nanos }) => [key, name, simulated, cost_nanos])).toEqual([
    ['', 'Removed sessions', false, 1526],
    [other, 'A session', false, 300],
    ['', 'Removed sessions', true, 7],
  ])
})

test('turns() gives the last turns with what their calls cost and how their prompts begin', () => {
  const id = newSession()
  for (let turn = 1; turn <= 5; turn++) {
    const prompt = newPromptId(randomBytes)
    append(id, { type: 'prompt', body: { id: prompt, text: `do ${turn}`, images: 0 } })
    append(id, { type: 'turn.started', body: { cause: 'prompt', prompt } })
    append(id, usage(1000 * turn))
    append(id, usage(500))
    append(id, turnEnded)
  }
  const shown = store.turns(id, 2).map(({ title, calls, cost_micros }) => [title, calls, cost_micros])
  expect(shown).toEqual([
    ['do 4', 2, 5],
    ['do 5', 2, 6],
  ])
  expect(store.turns(id, 100)).toHaveLength(5)
  expect(store.calls(id)).toEqual({ requests: 10, errors: 0, meanMs: 1 })
})

test('what turns and calls have cost is found by an index, however long the log is', () => {
  const path = join(mkdtempSync(join(tmpdir(), 'ah-store-')), 'test.db')
  onTestFinished(() => rmSync(join(path, '..'), { recursive: true }))
  sqliteStore(path).close()
  using real = Object.assign(new Database(path), { [Symbol.dispose]: () => void real.close() })
  const asked: string[] = []
  const db = new Proxy(real, {
    get(target, name) {
      if (name !== 'prepare') return Reflect.get(target, name) as unknown
      return (sql: string) => {
        asked.push(sql)
        return target.prepare(sql)
      }
    },
  })
  for (const room of [sqliteTurns, sqliteCalls, sqliteUsage, sqliteSpending]) room(db)
  const plans = asked.map((sql) => {
    const values = Object.fromEntries(['session', 'seenBy', 'since'].map((name) => [name, 'x']))
    const bound = sql.includes('@') ? [values] : Array(sql.split('?').length - 1).fill(1)
    const steps = real.prepare<unknown[], { detail: string }>(`explain query plan ${sql}`).all(...bound)
    return { sql, details: steps.map(({ detail }) => detail) }
  })
  expect(plans.length).toBeGreaterThan(10)
  for (const { sql, details } of plans) {
    const ofEvents = details.filter((detail) => /\bevent\b/.test(detail))
    expect([sql, ofEvents.filter((detail) => !detail.includes('SEARCH event USING INDEX event_turns (session_id=?'))]).toEqual([
      sql,
      [],
    ])
    // What is asked of one session does not go through what others have cost.
    if (sql.includes('@session')) expect([sql, details.join()]).toEqual([sql, expect.not.stringContaining('SCAN usage')])
  }
})

test('tokens are found by hash, used, removed once, and forgotten when they expire', () => {
  const row = (hash: string, expires_at: number | null) => ({
    id: newTokenId(randomBytes),
    name: hash,
    user: firstOwner,
    role: 'bearer' as const,
    kind: 'token' as const,
    hash,
    created_at: 1,
    used_at: null,
    expires_at,
    address: null,
    agent: null,
    proved_at: null,
  })
  const [one, two] = [row('one', null), row('two', 50)]
  store.tokens.insert(one)
  store.tokens.insert(two)
  store.tokens.touch(one.id, 9, '192.0.2.1')
  store.tokens.prove(one.id, 8)
  expect(store.tokens.byHash('one')).toEqual({ ...one, used_at: 9, address: '192.0.2.1', proved_at: 8 })
  expect(store.tokens.byHash('three')).toBeNull()
  store.tokens.removeExpired(51)
  expect(store.tokens.list().map(({ name }) => name)).toEqual(['one'])
  expect([store.tokens.remove(one.id), store.tokens.remove(one.id)]).toEqual([true, false])
})

test('one provider at most is in use', () => {
  const row = (name: string) =>
    ({ name, kind: 'local', baseUrl: 'http://x', auth: 'none', credential: { from: 'none' }, model: 'm' }) as const
  for (const name of ['a', 'b']) store.providers.put(row(name))
  expect(store.providers.inUse()).toBeNull()
  store.providers.use('a')
  store.providers.use('b')
  expect(store.providers.inUse()).toBe('b')
  store.providers.put({ ...row('b'), model: 'n' })
  expect([store.providers.inUse(), store.providers.get('b')?.model]).toEqual(['b', 'n'])
  store.providers.use(null)
  expect(store.providers.inUse()).toBeNull()
  expect(store.providers.list().map(({ name }) => name)).toEqual(['a', 'b'])
})

test('sqliteStore() keeps what it has over a restart, and refuses a database of a newer release', () => {
  const folder = mkdtempSync(join(tmpdir(), 'ah-store-'))
  const path = join(folder, 'test.db')
  const kept = store
  store = sqliteStore(path)
  const id = newSession()
  store.close()
  store = sqliteStore(path)
  expect(all(id)).toHaveLength(1)
  store.close()
  store = kept
  const db = new Database(path)
  db.pragma('user_version = 999')
  db.close()
  expect(() => sqliteStore(path)).toThrow(
    expect.objectContaining({ code: 'storage_unavailable', message: expect.stringContaining('newer Anchorhold') as string }),
  )
  rmSync(folder, { recursive: true })
})

test('sqliteStore() takes over a database from before there were users and hashes', () => {
  const folder = mkdtempSync(join(tmpdir(), 'ah-store-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'test.db')
  const db = new Database(path)
  for (const sql of [first, source, positions, unfinished, forks, withdrawn]) db.exec(sql)
  db.pragma('user_version = 6')
  const [id, token] = [newSessionId(randomBytes), newTokenId(randomBytes)]
  db.prepare(`insert into session (id, standing, options, conversation, last_seq) values (?, ?, '{}', 'c', 1)`).run(
    id,
    JSON.stringify(atBirth),
  )
  db.prepare(
    `insert into event (session_id, seq, source, at, type, body) values (?, 1, 'daemon', 1, 'keeper.lost', '{"why":"x"}')`,
  ).run(id)
  // The newest events were of a session that has been purged since.
  db.exec(`update sqlite_sequence set seq = 70 where name = 'event'; insert into source (name, last_n) values ('gate', 5)`)
  db.prepare(`insert into token (id, name, role, hash, created_at) values (?, 'mine', 'bearer', 'h', 1)`).run(token)
  db.close()
  const taken = sqliteStore(path)
  onTestFinished(() => taken.close())
  const entry = (n: number) => ({ n, at: 1, event: text('later') })
  expect(taken.events.append(id, 'gate', [entry(5), entry(6)])).toMatchObject([{ pos: 71, seq: 2 }])
  expect(taken.people.list()).toMatchObject([{ id: firstOwner, name: 'owner', role: 'owner' }])
  expect(taken.tokens.byHash('h')).toMatchObject({ id: token, user: firstOwner })
  expect(taken.sessions.get(id)).toMatchObject({ owner: 'owner', ownerId: firstOwner })
  expect(taken.chains.head(id)).toBeNull()
  while (taken.chains.fill());
  expect(taken.chains.head(id)).toMatchObject({ seq: 2 })
})

test('index() goes through what an older index has left out, a step at a time', () => {
  const folder = mkdtempSync(join(tmpdir(), 'ah-store-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'test.db')
  const before = sqliteStore(path)
  const id = newSessionId(randomBytes)
  before.sessions.insert({ id, options: {}, runAs: null, conversation: 'c', conversing: false, grants: [] })
  const put = (event: NewEvent) => before.events.append(id, 'daemon', [{ n: null, at: 1, event }])
  put({ type: 'thinking', body: { block: 't', text: 'marmalade' } })
  for (let n = 0; n < 1200; n++) put({ type: 'text', body: { block: `b${n}`, text: 'bread' } })
  while (before.index());
  before.close()
  const db = new Database(path)
  db.exec(`delete from event_text where rowid in (select pos from event where type = 'thinking');
    update search_backfill set next = 0, until = (select max(pos) from event)`)
  db.close()
  const taken = sqliteStore(path)
  onTestFinished(() => taken.close())
  const find = (q: string) => taken.search({ q, session: null, seenBy: null, limit: 2, perSession: null }).hits.length
  // Nobody waits for it.
  expect([find('bread'), find('marmalade')]).toEqual([2, 0])
  expect(taken.index()).toBe(true)
  expect(find('marmalade')).toBe(1)
  while (taken.index());
  expect([find('bread'), find('marmalade')]).toEqual([2, 1])
})

const mountable = process.platform === 'linux' && process.getuid?.() === 0 && canMount()
test.skipIf(!mountable)(
  'a full disk (needs root, to mount a small one): writing fails in words, nothing is half stored, and it goes on when there is room',
  () => {
    const disk = mkdtempSync(join(tmpdir(), 'ah-store-'))
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', disk])
    onTestFinished(() => {
      execFileSync('umount', ['-l', disk])
      rmSync(disk, { recursive: true, force: true })
    })
    const path = join(disk, 'anchorhold.db')
    const full = sqliteStore(path)
    const id = newSessionId(randomBytes)
    full.sessions.insert({ id, options: {}, runAs: null, conversation: 'c', conversing: false, grants: [] })
    writeFileSync(join(disk, 'ballast'), Buffer.alloc(300 * 1024))
    let n = 0
    const say = () => {
      full.atomically(() => {
        const event = { type: 'notice', body: { level: 'info', code: 'x', message: 'x'.repeat(2000) } } as const
        full.events.append(id, `keeper/${id}`, [{ n: n + 1, at: 0, event }])
        full.events.append(id, `keeper/${id}`, [{ n: n + 2, at: 0, event }])
      })
      n += 2
    }
    expect(() => {
      for (let i = 0; i < 1000; i++) say()
    }).toThrow(expect.objectContaining({ code: 'storage_unavailable', message: expect.stringContaining('the disk is full') }))
    expect([full.events.lastOf(`keeper/${id}`), full.events.after(id, 0, 10_000).length]).toEqual([n, n])
    rmSync(join(disk, 'ballast'))
    say()
    expect(full.events.after(id, 0, 10_000).map(({ seq }) => seq)).toEqual(Array.from({ length: n }, (_, index) => index + 1))
    full.close()
    expect(sqliteStore(path).events.lastOf(`keeper/${id}`)).toBe(n)
  },
)

test('a database that another program writes to for long is told as that, and what is to be stored waits', () => {
  const folder = mkdtempSync(join(tmpdir(), 'ah-store-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'busy.db')
  const ours = sqliteStore(path)
  const theirs = new Database(path)
  theirs.exec('begin immediate')
  expect(() => ours.atomically(() => {})).toThrow(expect.objectContaining({ code: 'storage_unavailable' }))
  theirs.exec('rollback')
  ours.atomically(() => {})
  ours.close()
  theirs.close()
})

function canMount(): boolean {
  const folder = mkdtempSync(join(tmpdir(), 'ah-store-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', folder], { stdio: 'ignore' })
    execFileSync('umount', [folder], { stdio: 'ignore' })
    return true
  } catch {
    return false
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

test('the first commit that is told before a turn is what a session began with; later ones are where it is', () => {
  const at = (branch: string, commit: string): NewEvent => ({ type: 'workspace.at', body: { branch, commit } })
  const told = (...events: readonly NewEvent[]) => {
    const id = newSession()
    for (const event of events) append(id, event)
    return store.sessions.get(id)
  }
  const [a, b] = ['a'.repeat(40), 'b'.repeat(40)]
  const context = { used_tokens: 5, window_tokens: 10 }
  const full: NewEvent = { type: 'turn.ended', body: { reason: 'done', why: null, duration_ms: 1, context } }
  expect(told(at('main', a), turnStarted, full, at('topic', b), turnStarted, turnEnded)).toMatchObject({
    branch: 'topic',
    baseCommit: a,
    checkedOut: { branch: 'topic', commit: b },
    context,
  })
  expect(told(turnStarted, at('main', b))).toMatchObject({ branch: 'main', baseCommit: null, context: null })
})
