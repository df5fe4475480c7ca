import type { Actor } from '@anchorhold/core/actors'
import { apiAddress, type ApiName } from '@anchorhold/protocol/api/addresses'
import { api } from '@anchorhold/protocol/api/api'
import { newRequestId, type RequestId, type SessionId } from '@anchorhold/protocol/ids'
import type { Role } from '@anchorhold/protocol/people'
import { randomBytes } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createToken } from '../../app/people/access.ts'
import { createSession } from '../../app/sessions/create-session.ts'
import { prompt as sendPrompt } from '../../app/prompts/prompt.ts'
import { archive } from '../../app/sessions/archive.ts'
import { stop } from '../../app/sessions/lifecycle.ts'
import { addUser, shareSession } from '../../app/people/people.ts'
import { owner, record } from '../../app/test-parts.ts'
import { type TestDoor, testDoor } from './test-door.ts'

/** Who asks, and what the session that they ask about is to them. */
const askers = {
  owner: { role: 'owner', tie: 'none' },
  'member, own': { role: 'member', tie: 'own' },
  'member, shared': { role: 'member', tie: 'work' },
  'member, shown': { role: 'member', tie: 'view' },
  'member, foreign': { role: 'member', tie: 'none' },
  'viewer, shown': { role: 'viewer', tie: 'view' },
  'viewer, foreign': { role: 'viewer', tie: 'none' },
  'agent, own': { role: 'agent', tie: 'own' },
  'agent, foreign': { role: 'agent', tie: 'none' },
} as const satisfies Record<string, { role: Role; tie: 'own' | 'work' | 'view' | 'none' }>
type Asker = keyof typeof askers
const askerNames = Object.keys(askers) as Asker[]

/** `yes`: it was done, or refused for a reason that has nothing to do with who asked. */
type Outcome = 'yes' | 'forbidden' | 'hidden'
type Row = Readonly<Record<Asker, Outcome>>
const byRole = (outcomes: Readonly<Record<Exclude<Role, 'owner'>, Outcome>>): Row =>
  Object.fromEntries(
    askerNames.map((name) => [name, askers[name].role === 'owner' ? 'yes' : outcomes[askers[name].role as 'member']]),
  ) as Row
const everyone = byRole({ member: 'yes', viewer: 'yes', agent: 'yes' })
const people = byRole({ member: 'yes', viewer: 'forbidden', agent: 'forbidden' })
const humans = byRole({ member: 'yes', viewer: 'yes', agent: 'forbidden' })
/** Let through, and there was nothing to take away. */
const missing: Row = { ...byRole({ member: 'hidden', viewer: 'hidden', agent: 'forbidden' }), owner: 'hidden' }
const allMissing = { ...byRole({ member: 'hidden', viewer: 'hidden', agent: 'hidden' }), owner: 'hidden' } as const satisfies Row
const ownersOnly = byRole({ member: 'forbidden', viewer: 'forbidden', agent: 'forbidden' })
const creating = byRole({ member: 'yes', viewer: 'forbidden', agent: 'yes' })
const hidden = { 'member, foreign': 'hidden', 'viewer, foreign': 'hidden', 'agent, foreign': 'hidden' } as const
const reading: Row = { ...everyone, ...hidden }
const working: Row = { ...reading, 'member, shown': 'forbidden', 'viewer, shown': 'forbidden' }
const answering: Row = { ...working, 'agent, own': 'forbidden' }
const owning: Row = { ...answering, 'member, shared': 'forbidden' }

/** A route that is not here does not compile, and does not pass. */
const expected: Record<ApiName, Row> = {
  createSession: creating,
  listSessions: everyone,
  getSession: reading,
  changeSession: working,
  deleteSession: working,
  purgeSession: owning,
  prompt: working,
  dropPrompt: working,
  interrupt: working,
  warm: working,
  pause: working,
  resume: working,
  stop: working,
  start: working,
  archive: working,
  fork: working,
  sessionNet: reading,
  net: everyone,
  turnCosts: reading,
  changes: working,
  listFiles: working,
  readFile: working,
  downloadFile: working,
  showPicture: working,
  uploadFile: working,
  completions: working,
  sessionEvents: reading,
  events: everyone,
  listRequests: reading,
  getRequest: reading,
  requestRule: reading,
  answerRequest: answering,
  search: reading,
  usage: reading,
  spending: reading,
  listBudgets: everyone,
  setBudget: ownersOnly,
  listFolders: creating,
  workers: everyone,
  listCaches: ownersOnly,
  clearCaches: ownersOnly,
  listProviders: everyone,
  putProvider: ownersOnly,
  useProvider: ownersOnly,
  testProvider: ownersOnly,
  deleteProvider: ownersOnly,
  listSecrets: ownersOnly,
  putSecret: ownersOnly,
  deleteSecret: ownersOnly,
  rotateKey: ownersOnly,
  listTokens: people,
  createToken: people,
  revokeToken: ownersOnly,
  createLoginLink: people,
  login: everyone,
  loginWays: everyone,
  loginByPassword: everyone,
  loginByCode: everyone,
  askPasskey: everyone,
  loginByPasskey: everyone,
  account: humans,
  proveByPassword: humans,
  proveByPasskey: humans,
  setPassword: ownersOnly,
  removePassword: missing,
  offerPasskey: humans,
  addPasskey: humans,
  removePasskey: missing,
  offerTotp: humans,
  confirmTotp: humans,
  removeTotp: missing,
  revokeOthers: humans,
  listUsers: people,
  addUser: ownersOnly,
  changeUser: ownersOnly,
  removeUser: ownersOnly,
  inviteUser: ownersOnly,
  listShares: reading,
  shareSession: owning,
  unshareSession: owning,
  exportSession: reading,
  exportAll: ownersOnly,
  audit: reading,
  houseEvents: ownersOnly,
  signingKey: everyone,
  showPolicy: everyone,
  reloadPolicy: ownersOnly,
  checkPolicy: everyone,
  pushKey: humans,
  listPushDevices: humans,
  addPushDevice: humans,
  removePushDevice: missing,
  watching: reading,
  notWatching: reading,
  readPolicyFile: ownersOnly,
  writePolicyFile: ownersOnly,
  explainAction: reading,
  testPolicy: everyone,
  proposePolicy: reading,
  backtestPolicy: everyone,
  whoAmI: everyone,
  logout: everyone,
  openReach: ownersOnly,
  reach: allMissing,
  status: everyone,
  health: everyone,
  doctor: everyone,
  panic: people,
  liftPanic: people,
  shutdown: ownersOnly,
}

type Scene = { readonly session: SessionId; readonly request: RequestId; readonly foreignToken: string }
type Sent = {
  readonly params?: Record<string, string>
  readonly query?: string
  readonly body?: unknown
  /** What must be so before, done by whoever asks. */
  readonly before?: (actor: Actor, scene: Scene) => Promise<unknown> | void
}
/** What is sent to routes that need more than the id of a session. */
const sent: Partial<Record<ApiName, (scene: Scene) => Sent>> = {
  createSession: () => ({ body: {} }),
  changeSession: () => ({ body: { name: 'Renamed' } }),
  purgeSession: ({ session }) => ({
    body: { confirm: session },
    before: async () => void (await archive(door.parts, owner, session)),
  }),
  prompt: () => ({ body: { text: 'Go on' } }),
  dropPrompt: ({ session }) => ({
    params: { id: session, prompt: sendPrompt(door.parts, owner, session, { text: 'Go on', mode: 'queue' }).id },
  }),
  removePushDevice: () => ({ params: { id: 'psh_0000000000000000' } }),
  addPushDevice: () => ({
    body: {
      endpoint: 'https://push.example.com/x',
      keys: { p256dh: 'A'.repeat(87), auth: 'A'.repeat(22) },
      name: 'Phone',
    },
  }),
  writePolicyFile: () => ({ body: { text: '', was: '0'.repeat(64) } }),
  start: ({ session }) => ({ before: (actor) => stop(door.parts, mayWork(actor) ? actor : owner, session) }),
  resume: () => ({}),
  listRequests: ({ session }) => ({ query: `?session=${session}` }),
  getRequest: ({ request }) => ({ params: { id: request } }),
  requestRule: ({ request }) => ({ params: { id: request } }),
  answerRequest: ({ request }) => ({ params: { id: request }, body: { decision: 'deny' } }),
  listFiles: () => ({ query: '?path=' }),
  readFile: () => ({ query: '?path=a' }),
  downloadFile: () => ({ query: '?path=a' }),
  showPicture: () => ({ query: '?path=a' }),
  uploadFile: () => ({ body: { name: 'a', data: 'eA==' } }),
  search: ({ session }) => ({ query: `?q=word&session=${session}` }),
  usage: ({ session }) => ({ query: `?session=${session}` }),
  spending: ({ session }) => ({ query: `?by=day&session=${session}` }),
  setBudget: () => ({ body: { node: 'owner', per: 'day', budget_micros: 5 } }),
  checkPolicy: () => ({ body: {} }),
  explainAction: ({ session }) => ({ body: { action: { tool: 'Bash', command: 'ls' }, session } }),
  testPolicy: () => ({ body: { fixtures: '' } }),
  proposePolicy: ({ session }) => ({ body: { sessions: [session] } }),
  backtestPolicy: () => ({ body: { text: '' } }),
  audit: ({ session }) => ({ query: `?session=${session}` }),
  putProvider: () => ({
    params: { name: 'mine' },
    body: { kind: 'local', base_url: 'http://127.0.0.1:1', credential: { from: 'none' } },
  }),
  useProvider: () => ({ params: { name: 'rehearsal' } }),
  testProvider: () => ({ params: { name: 'rehearsal' } }),
  deleteProvider: () => ({ params: { name: 'there' }, before: () => putProvider() }),
  putSecret: () => ({ params: { name: 'mine' }, body: { value: 'long-enough' } }),
  deleteSecret: () => ({
    params: { name: 'there' },
    before: () => door.parts.store.secrets.put({ name: 'there', box: 'b', mask: '…', changedAt: 1, inside: false }),
  }),
  createToken: () => ({ body: { name: 'another' } }),
  revokeToken: ({ foreignToken }) => ({ params: { id: foreignToken } }),
  login: () => ({ body: { secret: 'x' } }),
  loginByPassword: () => ({ body: { name: 'somebody', password: 'wrong' } }),
  loginByCode: () => ({ body: { ticket: 'none', code: '123456' } }),
  loginByPasskey: () => ({ body: { ticket: 'none', passkey: shownPasskey } }),
  proveByPassword: () => ({ body: { password: 'wrong' } }),
  proveByPasskey: () => ({ body: { ticket: 'none', passkey: shownPasskey } }),
  setPassword: () => ({ params: { name: 'somebody' }, body: { password: 'a long enough one' } }),
  addPasskey: () => ({ body: { ticket: 'none', passkey: newPasskey } }),
  removePasskey: () => ({ params: { id: 'none' } }),
  confirmTotp: () => ({ body: { ticket: 'none', code: '123456' } }),
  reach: () => ({ params: { nonce: 'none' } }),
  addUser: () => ({ body: { name: `new-${randomBytes(4).toString('hex')}`, role: 'member' } }),
  changeUser: () => ({ params: { name: 'somebody' }, body: { role: 'viewer' } }),
  removeUser: () => {
    const name = `gone-${randomBytes(4).toString('hex')}`
    return { params: { name }, before: () => void addUser(door.parts, owner, { name, role: 'member' }) }
  },
  inviteUser: () => ({ params: { name: 'somebody' } }),
  shareSession: ({ session }) => ({ params: { id: session, name: 'somebody' }, body: { access: 'view' } }),
  unshareSession: ({ session }) => ({
    params: { id: session, name: 'somebody' },
    before: () => void shareSession(door.parts, owner, session, { user: 'somebody', access: 'view' }),
  }),
}

const shownPasskey = {
  ...{ id: 'x', rawId: 'x', type: 'public-key' },
  response: { clientDataJSON: 'x', authenticatorData: 'x', signature: 'x' },
}
const newPasskey = { ...{ id: 'x', rawId: 'x', type: 'public-key' }, response: { clientDataJSON: 'x', attestationObject: 'x' } }
/** Routes whose own business is to refuse a secret that is none, which says nothing about who asked. */
const refusing: readonly ApiName[] = [
  'login',
  'loginByPassword',
  'loginByCode',
  'loginByPasskey',
  'proveByPassword',
  'proveByPasskey',
]

let door: TestDoor
const actors = {} as Record<Asker, Actor>
const names = {} as Record<Asker, string>
beforeAll(async () => {
  door = await testDoor()
  // Every call has sessions of its own, more than an agent has otherwise.
  mkdirSync(door.parts.config.config, { recursive: true })
  writeFileSync(join(door.parts.config.config, 'policy.yaml'), 'max_concurrent: 10000\n')
  door.parts.policies.reload()
  addUser(door.parts, owner, { name: 'somebody', role: 'member' })
  for (const asker of askerNames) {
    names[asker] = asker.replaceAll(/[, ]+/g, '-').replace('owner', 'second')
    const { id, name, role } = addUser(door.parts, owner, { name: names[asker], role: askers[asker].role })
    actors[asker] = { kind: role, user: id, name, door: 'test' }
  }
})
afterAll(async () => door[Symbol.asyncDispose]())

const mayWork = ({ name }: Actor) => ['second', 'member-own', 'member-shared', 'agent-own'].includes(name)
const putProvider = () =>
  door.parts.store.providers.put({
    name: 'there',
    kind: 'local',
    baseUrl: null,
    auth: 'none',
    credential: { from: 'none' },
    model: 'm',
  })

async function scene(asker: Asker): Promise<Scene> {
  const { parts } = door
  // What the one before has stopped.
  parts.store.panics.lift(null)
  const { tie } = askers[asker]
  const { id: session } = await createSession(parts, tie === 'own' ? actors[asker] : owner, { name: 'word' })
  if (tie === 'work' || tie === 'view') shareSession(parts, owner, session, { user: names[asker], access: tie })
  const request = newRequestId(randomBytes)
  record(
    parts,
    session,
    { type: 'keeper.started', body: { rung: 'bwrap', agent: 'a', agent_version: '1', limits: [], resumed: false } },
    { type: 'turn.started', body: { cause: 'prompt', prompt: null } },
    { type: 'request.opened', body: { id: request, call: null, action: { kind: 'plan', plan: 'Act' } } },
  )
  const { token } = createToken(parts, owner, { name: 'foreign' })
  return { session, request, foreignToken: token.id }
}

async function outcome(name: ApiName, asker: Asker): Promise<string> {
  const place = apiAddress(name)
  const set = await scene(asker)
  const { params = { id: set.session }, query = '', body, before } = sent[name]?.(set) ?? {}
  await before?.(actors[asker], set)
  const token = createToken(door.parts, owner, { name: 'try', user: names[asker] }).secret
  const path = place.path.replace(/:(\w+)/g, (_, key: string) => params[key] ?? key)
  const { status, text } = await door.ask(`${path}${query}`, { method: place.method, body, token })
  if (status < 400) return 'yes'
  const { code } = (JSON.parse(text) as { error: { code: string } }).error
  if (code === 'forbidden') return 'forbidden'
  if (code === 'not_found') return 'hidden'
  return code === 'internal' || (code === 'unauthenticated' && !refusing.includes(name)) ? `${code} ${door.logged.at(-1)}` : 'yes'
}

test('the table has a row for every route of the contract, and no other', () => {
  expect(Object.keys(expected).toSorted()).toEqual(Object.keys(api).toSorted())
})

describe.each(Object.keys(api) as ApiName[])('%s', (name) => {
  test('is for those whom the table names', async () => {
    const got = {} as Record<Asker, string>
    for (const asker of askerNames) got[asker] = await outcome(name, asker)
    expect(got).toEqual(expected[name])
  })
})
