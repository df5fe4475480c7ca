import type { Actor } from '@anchorhold/core/actors'
import { apiAddress, type ApiName } from '@anchorhold/protocol/api/addresses'
import { api } from '@anchorhold/protocol/api/api'
import { type Route } from '@anchorhold/protocol/api/route'
import type { NewEvent } from '@anchorhold/protocol/events'
import { newRequestId, type RequestId, type SessionId } from '@anchorhold/protocol/ids'
import { randomBytes } from 'node:crypto'
import { mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createToken } from '../../app/people/access.ts'
import { createSession } from '../../app/sessions/create-session.ts'
import { listFolders } from '../../app/workspace/host-folders.ts'
import { by } from '../../app/parts.ts'
import { addUser } from '../../app/people/people.ts'
import { owner, record } from '../../app/test-parts.ts'
import { type TestDoor, testDoor } from './test-door.ts'

let door: TestDoor
let token: string
let bot: Actor
let own: SessionId
let foreign: SessionId
let request: RequestId
const opened = (id: RequestId): NewEvent => ({
  type: 'request.opened',
  body: { id, call: null, action: { kind: 'plan', plan: 'Act' } },
})
beforeEach(async () => {
  door = await testDoor()
  const { parts } = door
  parts.policies.write('tight', 'default_autonomy: supervised\n', by(owner))
  const { id } = addUser(parts, owner, { name: 'bot', role: 'agent', policy: 'tight' })
  bot = { kind: 'agent', user: id, name: 'bot', door: 'test' }
  token = createToken(parts, owner, { name: 'program', user: 'bot' }).secret
  own = (await createSession(parts, bot, { budget_micros: 1000 })).id
  foreign = (await createSession(parts, owner, { budget_micros: 1000 })).id
  request = newRequestId(randomBytes)
  record(parts, own, opened(request))
})
afterEach(async () => door[Symbol.asyncDispose]())

const codeOf = async (path: string, method: string, body: unknown) => {
  const { status, text } = await door.ask(path, { method, body, token })
  return status < 400 ? 'done' : (JSON.parse(text) as { error: { code: string } }).error.code
}

/** All that an agent must not be able to change, by whatever it calls. */
function authority() {
  const { store } = door.parts
  return {
    users: store.people.list(),
    tokens: store.tokens.list().map(({ id, user, role, expires_at }) => ({ id, user, role, expires_at })),
    providers: [store.providers.list(), store.providers.inUse()],
    // What an agent takes back by ending its own session widens nothing.
    request: { ...store.requests.get(request), ...(isTakenBack() ? unanswered : {}) },
    shares: [store.people.shares(own), store.people.shares(foreign)],
    owners: [store.sessions.get(own)?.owner, store.sessions.get(foreign)?.owner],
    budget: store.sessions.get(own)?.budget_micros,
    foreign: { ...store.sessions.get(foreign), active_at: 0 },
    gate: door.parts.gate.commands.filter(({ do: verb }) => ['panic', 'seal', 'test', 'budget', 'answer'].includes(verb)),
    shutdowns: door.shutdowns,
  }
}

const unanswered = { answer: null, answered_at: null, answered_by: null, answered_from: null }
const isTakenBack = () => door.parts.store.requests.get(request)?.answer?.decision === 'withdrawn'

/** Bodies that ask for more, for the routes that take any. */
const more: Partial<Record<ApiName, readonly unknown[]>> = {
  createSession: [
    { rung: 'none' },
    { extras: { gpu: true } },
    { extras: { sudo: true } },
    { extras: { nested: true }, rung: 'container' },
    { workspace_settings: 'load' },
    { group: 'research' },
    { repo_filter: 'none' },
    { repo_filter: { denylist: [], allowlist: ['.env'] } },
    { observe: true },
    { owner: 'owner' },
  ],
  changeSession: [{ budget_micros: 2000 }, { budget_micros: null }, { autonomy: 'full', observe: true }],
  fork: [{ budget_micros: null }, { rung: 'none' }],
  answerRequest: [{ decision: 'allow' }, { decision: 'deny' }, { decision: 'allow', scope: 'rule' }],
  putProvider: [{ kind: 'local', base_url: 'http://127.0.0.1:1', credential: { from: 'none' }, test: false }],
  createToken: [{ name: 'more' }, { name: 'more', user: 'owner' }, { name: 'more', user: 'bot', days: 3650 }],
  addUser: [{ name: 'second', role: 'owner' }],
  setBudget: [{ node: 'owner', per: 'day', budget_micros: 5 }],
  changeUser: [{ role: 'owner' }, { policy: null }],
  shareSession: [{ access: 'work' }],
  shutdown: [{ all: true }],
}
/** What takes something away from the agent itself is its own to do. */
const narrowing = new Set<ApiName>(['logout'])

test.each(Object.keys(api) as ApiName[])('an agent cannot widen anything by %s', async (name) => {
  if (narrowing.has(name)) return
  const route: Route = api[name]
  const place = apiAddress(name)
  const before = authority()
  const ids = [own, foreign, request, ...door.parts.store.tokens.list().map((one) => one.id)]
  for (const id of place.path.includes(':id') ? ids : [own]) {
    for (const who of place.path.includes(':name') ? ['bot', 'owner', 'rehearsal'] : ['bot']) {
      const path = place.path.replace(/:(\w+)/g, (_, key: string) => (key === 'id' ? id : who))
      for (const body of more[name] ?? [route.body === undefined ? undefined : {}])
        expect([path, await codeOf(path, place.method, body)]).not.toEqual([path, 'internal'])
    }
  }
  expect(authority()).toEqual(before)
  const made = door.parts.store.sessions.list({ archived: false, state: null, before: null, limit: 500, seenBy: bot.user })
  for (const { rung, options } of made) {
    expect(rung).toBe('bwrap')
    expect(options.workspace_settings).not.toBe('load')
    expect(Object.values(options.extras ?? {})).not.toContain(true)
  }
})

test.each((more.createSession ?? []).map((body) => [JSON.stringify(body), body]))(
  'an agent may not create a session with %s',
  async (_, body) => {
    expect(await codeOf('/sessions', 'POST', body)).toMatch(/^(forbidden|bad_request)$/)
  },
)

test.each(['none', 'bwrap', 'container'] as const)('an agent gets no rung below the one of the house: %s', async (rung) => {
  ;(door.parts as { config: typeof door.parts.config }).config = { ...door.parts.config, rung: 'gvisor' }
  expect(await codeOf('/sessions', 'POST', { rung })).toBe('forbidden')
})

test('an agent whom the owner has pinned to a rung has that one, unless it is none', async () => {
  const config = (pins: Record<string, 'none' | 'bwrap'>) => {
    ;(door.parts as { config: typeof door.parts.config }).config = { ...door.parts.config, rung: 'gvisor', pins }
  }
  config({ bot: 'bwrap' })
  expect(await codeOf('/sessions', 'POST', {})).toBe('done')
  config({ program: 'bwrap' })
  expect(await codeOf('/sessions', 'POST', {})).toBe('done')
  config({ bot: 'none' })
  expect(await codeOf('/sessions', 'POST', {})).toBe('forbidden')
})

test('an agent lowers its budget and does not raise it', async () => {
  const change = (budget_micros: number | null) => codeOf(`/sessions/${own}`, 'PATCH', { budget_micros })
  expect(await change(500)).toBe('done')
  for (const wider of [501, 1000, null]) expect(await change(wider)).toBe('forbidden')
  expect(door.parts.store.sessions.get(own)?.budget_micros).toBe(500)
})

test.each([
  ['the budget that it has', 1000],
  ['a lower budget', 900],
])('an agent that sets %s allows no model call that a rule asks about', async (_, budget_micros) => {
  const { parts } = door
  const asked = newRequestId(randomBytes)
  const call = {
    kind: 'spend' as const,
    model: 'claude-opus-5',
    needed_nanos: 10,
    left_nanos: 1_000_000,
    budget_nanos: 1_000_000,
  }
  record(parts, own, { type: 'request.opened', body: { id: asked, call: null, action: call, digest: 'a'.repeat(64) } })
  const short = newRequestId(randomBytes)
  const action = { ...call, short: true as const, needed_nanos: 20 }
  record(parts, own, { type: 'request.opened', body: { id: short, call: null, action, digest: 'b'.repeat(64) } })
  expect(await codeOf(`/sessions/${own}`, 'PATCH', { budget_micros })).toBe('done')
  expect(parts.store.requests.get(asked)?.answer).toBeNull()
  expect(parts.store.requests.get(short)?.answer).toBeNull()
})

test('members and agents work in folders of the host that the owner has named, and in no other', async () => {
  const { parts } = door
  const root = join(parts.config.state, '../folders')
  for (const folder of ['for-all/project', 'private', 'for-all-but-this']) mkdirSync(join(root, folder), { recursive: true })
  symlinkSync(join(root, 'private'), join(root, 'for-all/link'))
  ;(parts as { config: typeof parts.config }).config = { ...parts.config, sharedFolders: [join(root, 'for-all')] }
  const ask = (folder: string, access?: string) =>
    codeOf('/sessions', 'POST', { workspace: join(root, folder), ...(access === undefined ? {} : { workspace_access: access }) })
  expect(await ask('for-all/project')).toBe('done')
  for (const folder of ['private', 'for-all-but-this', 'for-all/link', 'for-all/../private'])
    for (const access of [undefined, 'copy', 'snapshot'])
      expect([folder, await ask(folder, access)]).toEqual([folder, 'workspace_refused'])
  const seen = async (actor: Actor, path: string | null = null) =>
    (await listFolders(parts, actor, path)).folders.map(({ path: one }) => one)
  expect(await seen(bot)).toEqual([join(root, 'for-all')])
  expect(await seen(bot, join(root, 'for-all'))).toEqual([join(root, 'for-all/project')])
  await expect(seen(bot, join(root, 'private'))).rejects.toMatchObject({ code: 'not_found' })
  expect((await listFolders(parts, bot, null)).recent).toEqual([join(root, 'for-all/project')])
  expect((await createSession(parts, owner, { workspace: join(root, 'private') })).workspace).toBe(join(root, 'private'))
})
