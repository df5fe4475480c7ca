import type { Actor } from '@anchorhold/core/actors'
import { exportVerifier, type Verdict } from '@anchorhold/core/verify-export'
import { Event, type NewEvent } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { Role } from '@anchorhold/protocol/people'
import { createHash, createPublicKey, verify } from 'node:crypto'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type TestDoor, testDoor } from '../../doors/http/test-door.ts'
import { createToken, logIn, loginMs, whoIs } from './access.ts'
import { prompt } from '../prompts/prompt.ts'
import { createSession } from '../sessions/create-session.ts'
import { archive, purge } from '../sessions/archive.ts'
import { forkSession } from '../sessions/fork-session.ts'
import { change, pause, resume, start, stop } from '../sessions/lifecycle.ts'
import { panic } from '../house/panic.ts'
import { by } from '../parts.ts'
import { addUser, changeUser, inviteUser, removeUser, shareSession, unshareSession } from './people.ts'
import { owner, record } from '../test-parts.ts'

let door: TestDoor
beforeEach(async () => void (door = await testDoor()))
afterEach(async () => door[Symbol.asyncDispose]())

function somebody(name: string, role: Role): { readonly actor: Actor; readonly token: string } {
  const { id } = addUser(door.parts, owner, { name, role })
  const { secret } = createToken(door.parts, owner, { name: `${name}'s`, user: name })
  return { actor: { kind: role, user: id, name, door: 'test' }, token: secret }
}
async function get<T>(path: string, token: string): Promise<T> {
  const { status, text } = await door.ask(path, { token })
  expect([path, status]).toEqual([path, 200])
  return JSON.parse(text) as T
}
const keeperStarted: NewEvent = {
  type: 'keeper.started',
  body: { rung: 'bwrap', agent: 'claude', agent_version: '1', limits: [], resumed: false },
}
const sessionOf = async (actor: Actor, name = 'secret plan') => (await createSession(door.parts, actor, { name })).id
const house = () => door.parts.store.house.before(Number.MAX_SAFE_INTEGER, 100)

test('every list holds what its reader may see, and nothing of other sessions', async () => {
  const { parts } = door
  const [ann, bob, vic] = [somebody('ann', 'member'), somebody('bob', 'member'), somebody('vic', 'viewer')]
  const agent = somebody('bot', 'agent')
  const id = await sessionOf(ann.actor)
  await parts.keepers.ensure(id)
  record(parts, id, {
    type: 'usage',
    body: {
      provider: 'p',
      model: 'm',
      tokens: { input: 1, output: 1, cache_read: 0, cache_write: 0 },
      cost_nanos: 5000,
      simulated: false,
      estimated: false,
      notional: false,
      status: 200,
      duration_ms: 1,
    },
  })
  const lists = [
    '/sessions',
    '/events',
    '/events?before=9999',
    '/requests?all=true',
    '/search?q=secret',
    '/usage',
    '/workers',
    '/audit',
    '/status',
  ]
  const seen = async (token: string) => {
    const found: string[] = []
    for (const path of lists) {
      const text = JSON.stringify(await get(path, token))
      if (text.includes(id) || (path === '/status' && /"(creating|ready)":1/.test(text))) found.push(path)
    }
    return found
  }
  const everything = lists.filter((path) => !path.startsWith('/requests'))
  expect(await seen(ann.token)).toEqual(everything)
  for (const other of [bob, vic, agent]) expect(await seen(other.token)).toEqual([])
  shareSession(parts, owner, id, { user: 'bob', access: 'work' })
  shareSession(parts, owner, id, { user: 'vic', access: 'view' })
  for (const other of [bob, vic]) expect(await seen(other.token)).toEqual(everything)
  unshareSession(parts, owner, id, 'bob')
  expect(await seen(bob.token)).toEqual([])
})

/** A stream that is read until it ends; `seen` holds what came. */
function stream(path: string, token: string): { readonly seen: string[]; readonly ended: Promise<void> } {
  const seen: string[] = []
  const ended = door.stream(path, token, (text) => void seen.push(text))
  return { seen, ended }
}

test.each<[string, (id: SessionId) => void]>([
  ['is unshared', (id) => void unshareSession(door.parts, owner, id, 'bob')],
  ['becomes a viewer', () => void changeUser(door.parts, owner, 'bob', { role: 'viewer' })],
  ['is removed', () => removeUser(door.parts, owner, 'bob')],
])('open streams end at once when their reader %s', async (_, lose) => {
  const bob = somebody('bob', 'member')
  const id = await sessionOf(owner)
  shareSession(door.parts, owner, id, { user: 'bob', access: 'work' })
  const watching = stream(`/sessions/${id}/events`, bob.token)
  await expect.poll(() => watching.seen.join('')).toContain('session.shared')
  lose(id)
  await watching.ended
  record(door.parts, id, { type: 'notice', body: { level: 'info', code: 'x', message: 'for others' } })
  expect(watching.seen.join('')).not.toContain('for others')
})

test('a stream over everything shows a session from when it is shared, and ends when it no longer is', async () => {
  const bob = somebody('bob', 'member')
  const [id, mine] = [await sessionOf(owner), await sessionOf(bob.actor, 'mine')]
  const say = (session: SessionId, message: string) =>
    record(door.parts, session, { type: 'notice', body: { level: 'info', code: 'x', message } })
  const all = stream('/events', bob.token)
  await expect.poll(() => all.seen.join('')).toContain(mine)
  const whisper = () => door.parts.hub.live(id, { type: 'text.delta', block: 'b', offset: 0, text: 'whispered' })
  whisper()
  say(mine, 'so far')
  await expect.poll(() => all.seen.join('')).toContain('so far')
  shareSession(door.parts, owner, id, { user: 'bob', access: 'view' })
  say(id, 'for both')
  await expect.poll(() => all.seen.join('')).toContain('for both')
  const ann = somebody('ann', 'member')
  const hers = await sessionOf(ann.actor, 'hers')
  const others = stream('/events', ann.token)
  await expect.poll(() => others.seen.join('')).toContain(hers)
  unshareSession(door.parts, owner, id, 'bob')
  // Whoever reads it learns by that to look anew at what they see.
  await all.ended
  const anew = stream('/events', bob.token)
  say(id, 'no longer')
  whisper()
  say(mine, 'the end')
  await expect.poll(() => anew.seen.join('')).toContain('the end')
  for (const hidden of ['whispered', 'no longer', id]) expect(anew.seen.join('')).not.toContain(hidden)
  for (const hidden of ['whispered', 'no longer']) expect(all.seen.join('')).not.toContain(hidden)
  removeUser(door.parts, owner, 'bob')
  await anew.ended
  say(hers, 'still there')
  await expect.poll(() => others.seen.join('')).toContain('still there')
  removeUser(door.parts, owner, 'ann')
  await others.ended
})

const caller = { address: '192.0.2.1', agent: 'browser', door: 'http' }

test('removeUser() ends tokens, logins and links; the name is free again, and the sessions are not inherited', async () => {
  const { parts } = door
  const bob = somebody('bob', 'member')
  const id = await sessionOf(bob.actor)
  const link = inviteUser(parts, owner, 'bob', 'http://x').url.split('=')[1]!
  const cookie = logIn(parts, inviteUser(parts, owner, 'bob', 'http://x').url.split('=')[1]!, caller).secret
  expect(whoIs(parts, cookie, 'cookie', caller)).toMatchObject({ actor: { name: 'bob', kind: 'member' } })
  removeUser(parts, owner, 'bob')
  expect(whoIs(parts, cookie, 'cookie', caller)).toBeNull()
  expect(whoIs(parts, bob.token, 'bearer', caller)).toBeNull()
  expect(() => logIn(parts, link, caller)).toThrow(expect.objectContaining({ code: 'unauthenticated' }))
  const again = somebody('bob', 'member')
  expect((await door.ask(`/sessions/${id}`, { token: again.token })).status).toBe(404)
  expect(parts.store.sessions.get(id)).toMatchObject({ owner: 'bob' })
})

test('who becomes an agent sees nothing any more of what was shared with them', async () => {
  const bob = somebody('bob', 'member')
  const id = await sessionOf(owner)
  shareSession(door.parts, owner, id, { user: 'bob', access: 'view' })
  expect(JSON.stringify(await get('/sessions', bob.token))).toContain(id)
  changeUser(door.parts, owner, 'bob', { role: 'agent' })
  for (const path of ['/sessions', '/events', '/search?q=secret'])
    expect(JSON.stringify(await get(path, bob.token))).not.toContain(id)
})

test('an invitation is good once, and not for ever', () => {
  const { parts } = door
  somebody('bob', 'member')
  const secretOf = () => inviteUser(parts, owner, 'bob', 'http://x').url.split('=')[1]!
  const [once, late] = [secretOf(), secretOf()]
  logIn(parts, once, caller)
  expect(() => logIn(parts, once, caller)).toThrow(expect.objectContaining({ code: 'unauthenticated' }))
  parts.at += loginMs
  expect(() => logIn(parts, late, caller)).toThrow(expect.objectContaining({ code: 'unauthenticated' }))
})

test('the last owner can be neither removed nor made anything else', () => {
  const { parts } = door
  for (const lose of [() => removeUser(parts, owner, 'owner'), () => changeUser(parts, owner, 'owner', { role: 'member' })])
    expect(lose).toThrow(expect.objectContaining({ code: 'conflict' }))
  somebody('second', 'owner')
  removeUser(parts, owner, 'owner')
  expect(() => removeUser(parts, owner, 'second')).toThrow(expect.objectContaining({ code: 'conflict' }))
})

test.each([
  ['a name that is taken', { name: 'bob', role: 'viewer' as const }, 'conflict'],
  ["the house's own name", { name: 'daemon', role: 'owner' as const }, 'conflict'],
  ['a policy of a person', { name: 'ann', role: 'member' as const, policy: 'tight' }, 'bad_request'],
  ['a policy that there is not', { name: 'ci', role: 'agent' as const, policy: 'nope' }, 'not_found'],
])('addUser() refuses %s', (_, input, code) => {
  somebody('bob', 'member')
  expect(() => addUser(door.parts, owner, input)).toThrow(expect.objectContaining({ code }))
})

test('changeUser() refuses a policy that there is not, and nothing else for one that is gone since', () => {
  const { parts } = door
  somebody('bot', 'agent')
  expect(() => changeUser(parts, owner, 'bot', { policy: 'nope' })).toThrow('There is no policy "nope"')
  parts.policies.write('ci', 'default_autonomy: supervised\n', by(owner))
  expect(changeUser(parts, owner, 'bot', { policy: 'ci' })).toMatchObject({ policy: 'ci' })
  rmSync(join(parts.config.config, 'policies/ci.yaml'))
  parts.policies.reload()
  expect(changeUser(parts, owner, 'bot', { role: 'agent' })).toMatchObject({ policy: 'ci' })
})

test('nothing is shared with an agent, and a viewer does not work', async () => {
  somebody('bot', 'agent')
  somebody('vic', 'viewer')
  const id = await sessionOf(owner)
  for (const [user, access] of [
    ['bot', 'view'],
    ['bot', 'work'],
    ['vic', 'work'],
  ] as const)
    expect(() => shareSession(door.parts, owner, id, { user, access })).toThrow(expect.objectContaining({ code: 'bad_request' }))
  expect(() => inviteUser(door.parts, owner, 'bot', 'http://x')).toThrow(expect.objectContaining({ code: 'bad_request' }))
})

test('a member who panics stops what they may work on, and nothing of others', async () => {
  const { parts } = door
  const ann = somebody('ann', 'member')
  const [own, shared, shown, foreign] = [
    await sessionOf(ann.actor),
    await sessionOf(owner),
    await sessionOf(owner),
    await sessionOf(owner),
  ]
  shareSession(parts, owner, shared, { user: 'ann', access: 'work' })
  shareSession(parts, owner, shown, { user: 'ann', access: 'view' })
  for (const id of [own, shared, shown, foreign]) await parts.keepers.ensure(id)
  expect(await panic(parts, ann.actor)).toEqual({ sessions: 2, launched: 0, left: [] })
  expect(parts.keepers.killed.toSorted()).toEqual([own, shared].toSorted())
  expect(parts.gate.commands).not.toContainEqual({ do: 'panic' })
  expect(await panic(parts, owner)).toEqual({ sessions: 2, launched: 0, left: [] })
  expect(parts.gate.commands).toContainEqual({ do: 'panic' })
})

test('a member who panics stops what is just being made for them, and nothing of others', async () => {
  const ann = somebody('ann', 'member')
  const making = Promise.allSettled([sessionOf(ann.actor), sessionOf(owner)])
  await panic(door.parts, ann.actor)
  expect((await making).map(({ status }) => status)).toEqual(['rejected', 'fulfilled'])
})

test('what is no session has its place in the log of the house, with who did it and through which door', async () => {
  const { parts } = door
  const bob = somebody('bob', 'member')
  changeUser(parts, owner, 'bob', { role: 'owner' })
  const id = await sessionOf(bob.actor)
  await panic(parts, owner)
  await archive(parts, owner, id)
  const { seq, hash } = parts.store.chains.head(id)!
  await purge(parts, owner, id, id)
  await door.ask('/shutdown', { method: 'POST', token: bob.token })
  removeUser(parts, owner, 'bob')
  expect(house().map(({ type, body }) => `${type} ${body.actor} ${body.door}`)).toEqual([
    'user.added owner test',
    'token.made owner test',
    'user.changed owner test',
    'panic owner test',
    'session.purged owner test',
    'shutdown bob http',
    'user.removed owner test',
  ])
  expect(house()[4]).toMatchObject({ body: { session: id, seq, hash } })
})

test('a session of an agent that a person has stopped is a person\u2019s to start again', async () => {
  const { parts } = door
  const bot = somebody('bot', 'agent')
  const id = await sessionOf(bot.actor)
  await stop(parts, bot.actor, id)
  expect(start(parts, bot.actor, id).state).toBe('ready')
  await stop(parts, owner, id)
  expect(() => start(parts, bot.actor, id)).toThrow(expect.objectContaining({ code: 'forbidden' }))
  await expect(forkSession(parts, bot.actor, id, {})).rejects.toMatchObject({ code: 'forbidden' })
  expect(start(parts, owner, id).state).toBe('ready')
  await archive(parts, owner, id)
  await expect(forkSession(parts, bot.actor, id, {})).rejects.toMatchObject({ code: 'forbidden' })
})

function judge(text: string, key?: string): Verdict {
  const verifier = exportVerifier(
    {
      sha256(...parts) {
        const hash = createHash('sha256')
        for (const part of parts) hash.update(part)
        return hash.digest('hex')
      },
      verify(raw, message, signature) {
        const der = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), raw])
        return verify(null, Buffer.from(message), createPublicKey({ key: der, format: 'der', type: 'spki' }), signature)
      },
    },
    { key },
  )
  const lines = text.split('\n')
  for (const line of lines.slice(0, -1)) verifier.line(Buffer.from(line))
  return verifier.end({ whole: lines.at(-1) === '' })
}

test('exports are intact, of one session and of everything, and hold what the log holds', async () => {
  const { parts } = door
  const { secret: token } = createToken(parts, owner, { name: 'mine' })
  const [one, two] = [await sessionOf(owner), await sessionOf(owner)]
  for (const id of [one, two])
    record(
      parts,
      id,
      ...Array.from(
        { length: 100 },
        (_, n) => ({ type: 'notice', body: { level: 'info', code: 'x', message: `${n}` } }) as const,
      ),
    )
  const { fingerprint } = await get<{ fingerprint: string }>('/signing-key', token)
  const exported = (await door.ask(`/sessions/${one}/export`, { token })).text
  expect(judge(exported, fingerprint)).toMatchObject({ intact: true, logs: 1, problems: [] })
  const events = exported
    .split('\n')
    .slice(1, -2)
    .map((line) => JSON.parse(line) as Event)
  expect(events.map(({ seq, type, body }) => ({ seq, type, body }))).toEqual(
    parts.all(one).map(({ seq, type, body }) => ({ seq, type, body })),
  )
  const whole = (await door.ask('/export', { token })).text
  expect(judge(whole, fingerprint)).toMatchObject({ intact: true, logs: 3, problems: [] })
  expect(house().at(-1)).toMatchObject({ type: 'exported', body: { logs: 2, actor: 'owner' } })
})

test('an export that cannot be signed is a failure, not half an export', async () => {
  const { secret: token } = createToken(door.parts, owner, { name: 'mine' })
  const id = await sessionOf(owner)
  door.parts.gate.handle = () => {
    throw new Error('gone')
  }
  expect((await door.ask(`/sessions/${id}/export`, { token })).status).toBe(500)
})

test('a program neither goes on with what a person has paused, nor has more sessions at work than it may', async () => {
  const { parts } = door
  const { actor: bot } = somebody('bot', 'agent')
  const id = await sessionOf(bot)
  record(parts, id, keeperStarted)
  await pause(parts, owner, id)
  await expect(stop(parts, bot, id)).rejects.toMatchObject({ code: 'forbidden' })
  await resume(parts, owner, id)
  // Not by way of a crash either.
  record(parts, id, { type: 'turn.started', body: { cause: 'prompt', prompt: null } })
  await pause(parts, owner, id)
  record(parts, id, { type: 'keeper.lost', body: { why: 'killed' } })
  await expect(resume(parts, bot, id)).rejects.toMatchObject({ code: 'forbidden' })
  prompt(parts, bot, id, { text: 'Go on' })
  expect(parts.store.sessions.get(id)?.state).toBe('paused')
  await resume(parts, owner, id)
  const all = [id, await sessionOf(bot), await sessionOf(bot)]
  for (const each of all) await stop(parts, bot, each)
  for (let more = 0; more < 3; more++) await sessionOf(bot)
  expect(() => start(parts, bot, all[1]!)).toThrow('the policy allows 3')
  expect(start(parts, owner, all[1]!).state).toBe('ready')
})

test('what a session may do while it is being changed is looked at again when it is changed', async () => {
  const { parts } = door
  const { actor: bot } = somebody('bot', 'agent')
  const { id } = await createSession(parts, bot, { budget_micros: 5_000_000 })
  await parts.keepers.ensure(id)
  record(parts, id, keeperStarted)
  const told = Promise.withResolvers<null>()
  parts.keepers.handle = (_, command) => (command.do === 'model' ? told.promise : Promise.resolve(null))
  const late = change(parts, bot, id, { model: 'rehearsal-1', budget_micros: 5_000_000 })
  late.catch(() => {})
  await change(parts, owner, id, { budget_micros: 1_000_000 })
  told.resolve(null)
  await expect(late).rejects.toMatchObject({ code: 'forbidden' })
  expect(parts.store.sessions.get(id)?.budgetNanos).toBe(1_000_000_000)
})

test('whoever becomes another has their live sessions go by that at once', async () => {
  const { parts } = door
  const { actor: ann } = somebody('ann', 'member')
  const [id, other] = [await sessionOf(ann), await sessionOf(owner)]
  for (const each of [id, other]) {
    await parts.keepers.ensure(each)
    record(parts, each, keeperStarted)
  }
  const toldOf = () => parts.keepers.commands.flatMap(({ session, command }) => (command.do === 'policy' ? [session] : []))
  changeUser(parts, owner, 'ann', { role: 'viewer' })
  await expect.poll(toldOf).toEqual([id])
  removeUser(parts, owner, 'ann')
  await expect.poll(toldOf).toEqual([id, id])
})
