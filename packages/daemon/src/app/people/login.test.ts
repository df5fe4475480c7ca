import type { Actor } from '@anchorhold/core/actors'
import { firstOwner } from '@anchorhold/protocol/ids'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { fakeAuthenticator } from '../../logins/fake-authenticator.ts'
import { stepAt, totp } from '../../logins/totp.ts'
import { cliTokenName, createLoginLink, createToken, logIn, makeToken, revokeOthers, whoIs } from './access.ts'
import { account, addPasskey, confirmTotp, offerPasskey, offerTotp, removeTotp, setPassword } from './account.ts'
import { askPasskey, byCode, byPasskey, byPassword, proveByPassword, proveByPasskey, type Step, ways } from './login.ts'
import { addUser, changeUser, removeUser } from './people.ts'
import { freshMs } from './step-up.ts'
import { owner, type TestParts, testParts } from '../test-parts.ts'
import { transaction } from '../../transaction.ts'

const password = 'correct horse battery'
const caller = { address: '192.0.2.1', agent: 'Mozilla/5.0 (X11; Linux x86_64) Chrome/156.0 Safari/537.36', door: 'http' }
const origin = 'https://agents.example'
const refused = (code: string) => expect.objectContaining({ code })

let parts: TestParts
beforeEach(() => {
  parts = testParts()
  parts.at = Date.UTC(2026, 10, 15)
})
afterEach(() => parts[Symbol.dispose]())

const cookieOf = (step: Step) => step.secret ?? expect.unreachable('no cookie came')
const known = (secret: string) => whoIs(parts, secret, 'cookie', caller)!
/** A login by link, as the first one is. */
function device() {
  const secret = logIn(parts, createLoginLink(parts, owner, 'http://x').url.split('=')[1]!, caller).secret
  return { secret, ...known(secret) }
}
const told = () => parts.store.house.before(Number.MAX_SAFE_INTEGER, 100)
async function withPasskey(actor: Actor) {
  const authenticator = fakeAuthenticator()
  const { ticket, options } = await offerPasskey(parts, actor, origin)
  await addPasskey(parts, actor, { ticket, passkey: authenticator.create(options.challenge, origin) }, caller.agent)
  return authenticator
}
function withTotp(actor: Actor): { readonly secret: Uint8Array; readonly codes: readonly string[] } {
  const { ticket } = offerTotp(parts, actor, 'agents.example')
  const secret = parts.attempts.see('totp', ticket)!.secret
  const { recovery_codes: codes } = confirmTotp(parts, actor, { ticket, code: totp(secret, stepAt(parts.at)) })
  return { secret, codes }
}

test('byPassword() lets in who knows name and password, as a device, and says no more to anybody else', async () => {
  expect(ways(parts)).toEqual({ password: false, passkey: false })
  await setPassword(parts, owner, 'owner', password)
  expect(ways(parts).password).toBe(true)
  const { actor, token } = known(cookieOf(await byPassword(parts, { name: 'owner', password }, caller)))
  expect(actor).toMatchObject({ kind: 'owner', user: firstOwner })
  expect(account(parts, actor, token).devices).toMatchObject([{ name: 'Chrome on Linux', address: '192.0.2.1', this: true }])
  const messages = []
  for (const wrong of [
    { name: 'owner', password: 'wrong' },
    { name: 'stranger', password },
  ])
    messages.push(await byPassword(parts, wrong, caller).catch((error: Error) => error.message))
  expect(new Set(messages)).toEqual(new Set(['Cannot let you in: the name or the password is wrong']))
  expect(told().map(({ type }) => type)).toEqual(['account.changed', 'login', 'login.failed', 'login.failed'])
  expect(told().at(-1)).toMatchObject({ body: { user: 'stranger', how: 'password', address: '192.0.2.1' } })
})

test('byPassword() takes the hash of the configuration for the first owner, until a password is set', async () => {
  const passwordHash = await parts.passwords.hash('from the environment')
  const before = { ...parts, config: { ...parts.config, passwordHash } }
  expect(ways(before).password).toBe(true)
  cookieOf(await byPassword(before, { name: 'owner', password: 'from the environment' }, caller))
  addUser(parts, owner, { name: 'bob', role: 'member' })
  await expect(byPassword(before, { name: 'bob', password: 'from the environment' }, caller)).rejects.toThrow()
  await setPassword(before, owner, 'owner', password)
  await expect(byPassword(before, { name: 'owner', password: 'from the environment' }, caller)).rejects.toThrow()
})

test('guessing is slowed down by account and by address, says until when, and touches nobody who is in', async () => {
  await setPassword(parts, owner, 'owner', password)
  const inside = device()
  const guess = (name: string, address: string) =>
    byPassword(parts, { name, password: 'wrong' }, { ...caller, address }).catch(
      (error: { code: string; retryMs?: number }) => error,
    )
  for (let tries = 0; tries < 10; tries++)
    expect(await guess('owner', `192.0.2.${tries}`)).toMatchObject({ code: 'unauthenticated' })
  const late = (await guess('owner', '192.0.2.99')) as { code: string; retryMs: number; message: string }
  expect(late).toMatchObject({ code: 'too_many' })
  expect(late.retryMs).toBeLessThanOrEqual(15 * 60_000)
  expect(late.message).toContain('try again in 15 min')
  // The right one has to wait as well; who is in stays in, and can show who they are.
  await expect(byPassword(parts, { name: 'owner', password }, caller)).rejects.toThrow(refused('too_many'))
  expect(known(inside.secret).actor.name).toBe('owner')
  await proveByPassword(parts, inside, { password }, caller)
  for (let tries = 0; tries < 30; tries++) await guess(`user${tries}`, '198.51.100.7')
  expect(await guess('another', '198.51.100.7')).toMatchObject({ code: 'too_many' })
  expect(await guess('another', '198.51.100.8')).toMatchObject({ code: 'unauthenticated' })
  // One house has a whole network of IPv6.
  for (let tries = 0; tries < 30; tries++) await guess(`guest${tries}`, `2001:db8:1:2::${tries}`)
  expect(await guess('another', '2001:db8:1:2:ffff::1')).toMatchObject({ code: 'too_many' })
  expect(await guess('another', '2001:db8:1:3::1')).toMatchObject({ code: 'unauthenticated' })
  parts.at += 15 * 60_000
  cookieOf(await byPassword(parts, { name: 'owner', password }, caller))
})

test('who has had too many tries costs nothing more: no password of theirs is looked at, at any way in', async () => {
  await setPassword(parts, owner, 'owner', password)
  const inside = device()
  let looked = 0
  const isRight: TestParts['passwords']['isRight'] = async () => {
    looked++
    return false
  }
  const counted = { ...parts, passwords: { ...parts.passwords, isRight } }
  const late = async (one: () => Promise<unknown>, max: number) => {
    looked = 0
    for (let tries = 0; tries < 3 * max; tries++) await one().catch(() => {})
    expect(looked).toBe(max)
    await expect(one()).rejects.toThrow(refused('too_many'))
  }
  await late(() => byPassword(counted, { name: 'owner', password: 'wrong' }, { ...caller, address: null }), 10)
  let guessed = 0
  await late(() => byPassword(counted, { name: `user${guessed++}`, password: 'wrong' }, caller), 30)
  await late(() => proveByPassword(counted, inside, { password: 'wrong' }, caller), 10)
})

test('many guesses at the same moment are not all the first', async () => {
  await setPassword(parts, owner, 'owner', password)
  const tries = await Promise.allSettled(
    Array.from({ length: 40 }, () => byPassword(parts, { name: 'owner', password: 'wrong' }, { ...caller, address: null })),
  )
  const looked = tries.filter((one) => one.status === 'rejected' && (one.reason as { code: string }).code === 'unauthenticated')
  expect(looked.length).toBeLessThanOrEqual(10)
})

test('with an authenticator a password is half of it: a code is good once, a recovery code too', async () => {
  await setPassword(parts, owner, 'owner', password)
  const { actor } = device()
  const { secret, codes } = withTotp(actor)
  const first = async () => {
    const step = await byPassword(parts, { name: 'owner', password }, caller)
    return step.secret === null ? step.ticket : expect.unreachable('let in without a code')
  }
  const now = () => totp(secret, stepAt(parts.at))
  // The code that set it up was seen already.
  const ticket = await first()
  expect(() => byCode(parts, { ticket, code: now() }, caller)).toThrow(refused('unauthenticated'))
  parts.at += 30_000
  const code = now()
  cookieOf(byCode(parts, { ticket, code }, caller))
  expect(() => byCode(parts, { ticket, code }, caller)).toThrow('too long')
  const again = await first()
  expect(() => byCode(parts, { ticket: again, code }, caller)).toThrow('used already')
  const [recovery = ''] = codes
  cookieOf(byCode(parts, { ticket: again, code: recovery.toUpperCase().replaceAll('-', ' ') }, caller))
  expect(() => byCode(parts, { ticket: again, code: recovery }, caller)).toThrow('too long')
  const third = await first()
  expect(() => byCode(parts, { ticket: third, code: recovery }, caller)).toThrow('used already')
  expect(account(parts, actor, null)).toMatchObject({ totp: true, recovery_codes: 9 })
  // What is kept of the codes is of no use to who reads it.
  expect(codes.join()).not.toContain(secret)
  for (let tries = 0; tries < 10; tries++)
    try {
      byCode(parts, { ticket: third, code: '000000' }, caller)
    } catch {}
  parts.at += 60_000
  expect(() => byCode(parts, { ticket: third, code: now() }, caller)).toThrow(refused('too_many'))
  parts.at -= 60_000
  removeTotp(parts, actor)
  cookieOf(await byPassword(parts, { name: 'owner', password }, caller))
})

test('byPasskey() lets in who holds the passkey: for this challenge, once, at this site, held by a person, and never twice at a count', async () => {
  const { actor } = device()
  const authenticator = await withPasskey(actor)
  expect(ways(parts).passkey).toBe(true)
  const show = async (make: (challenge: string) => Parameters<typeof byPasskey>[1]['passkey']) => {
    const { ticket, options } = await askPasskey(parts, origin, caller)
    return { ticket, passkey: make(options.challenge) }
  }
  authenticator.counter++
  const good = await show((challenge) => authenticator.get(challenge, origin))
  expect(known(cookieOf(await byPasskey(parts, good, caller))).actor.name).toBe('owner')
  await expect(byPasskey(parts, good, caller)).rejects.toThrow('done already')
  const attacks = {
    'a count that was seen': (challenge: string) => authenticator.get(challenge, origin),
    'another challenge': () => authenticator.get('AAAA', origin),
    'a page that looks like ours': (challenge: string) => authenticator.get(challenge, 'https://agents.example.evil.example'),
    'our site from another origin': (challenge: string) =>
      authenticator.get(challenge, 'https://evil.example', { site: 'agents.example' }),
    'nobody at the device': (challenge: string) => authenticator.get(challenge, origin, { verified: false }),
    'a passkey that nobody added': (challenge: string) => fakeAuthenticator().get(challenge, origin),
    'the id of a known one with another key': (challenge: string) => ({
      ...fakeAuthenticator().get(challenge, origin),
      ...{ id: authenticator.id, rawId: authenticator.id },
    }),
  }
  for (const [name, make] of Object.entries(attacks)) {
    if (name !== 'a count that was seen') authenticator.counter++
    await expect(byPasskey(parts, await show(make), caller), name).rejects.toThrow(refused('unauthenticated'))
  }
  expect(told().filter(({ type }) => type === 'login.failed')).toHaveLength(Object.keys(attacks).length)
})

test('byPasskey() lets in one of two who show the same count at the same moment', async () => {
  const authenticator = await withPasskey(device().actor)
  authenticator.counter++
  const shown = await Promise.all(
    [0, 1].map(async () => {
      const { ticket, options } = await askPasskey(parts, origin, caller)
      return { ticket, passkey: authenticator.get(options.challenge, origin) }
    }),
  )
  const settled = await Promise.allSettled(shown.map((one) => byPasskey(parts, one, caller)))
  expect(settled.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
})

test('a passkey is made for who asked, once, and not under an address', async () => {
  const { actor } = device()
  const { ticket, options } = await offerPasskey(parts, actor, origin)
  const passkey = fakeAuthenticator().create(options.challenge, origin)
  addUser(parts, owner, { name: 'bob', role: 'member' })
  const bob = { ...actor, user: parts.store.people.byName('bob')!.id }
  await expect(addPasskey(parts, bob, { ticket, passkey }, '')).rejects.toThrow('done already')
  const second = await offerPasskey(parts, actor, origin)
  await expect(addPasskey(parts, actor, { ticket: second.ticket, passkey }, '')).rejects.toThrow(refused('unauthenticated'))
  await expect(offerPasskey(parts, actor, 'http://127.0.0.1:7777')).rejects.toThrow('this is an address')
})

test('what reaches farther than the browser asks for a fresh proof, from browsers alone', async () => {
  const { secret, token } = device()
  const now = () => known(secret).actor
  createToken(parts, now(), { name: 'fresh' })
  addUser(parts, owner, { name: 'bob', role: 'member' })
  await setPassword(parts, now(), 'owner', password)
  const authenticator = await withPasskey(now())
  parts.at += freshMs + 1000
  const dangerous = [
    () => createToken(parts, now(), { name: 'late' }),
    () => createLoginLink(parts, now(), 'http://x'),
    () => addUser(parts, now(), { name: 'eve', role: 'owner' }),
    () => changeUser(parts, now(), 'bob', { role: 'owner' }),
    () => removeUser(parts, now(), 'bob'),
    () => offerTotp(parts, now(), 'x'),
    () => removeTotp(parts, now()),
  ]
  for (const deed of dangerous) expect(deed).toThrow(refused('proof_needed'))
  await expect(setPassword(parts, now(), 'owner', password)).rejects.toThrow(refused('proof_needed'))
  await expect(offerPasskey(parts, now(), origin)).rejects.toThrow(refused('proof_needed'))
  createToken(parts, owner, { name: 'the command line' })
  await expect(proveByPassword(parts, { actor: now(), token }, { password: 'wrong' }, caller)).rejects.toThrow()
  expect(dangerous[0]).toThrow(refused('proof_needed'))
  await proveByPassword(parts, { actor: now(), token }, { password }, caller)
  createToken(parts, now(), { name: 'proven' })
  // A clock that is set back makes an old proof no younger.
  parts.at -= 60 * 60_000
  expect(dangerous[0]).toThrow(refused('proof_needed'))
  parts.at += 60 * 60_000 + freshMs + 1000
  authenticator.counter++
  const { ticket, options } = await askPasskey(parts, origin, caller)
  await proveByPasskey(parts, { actor: now(), token }, { ticket, passkey: authenticator.get(options.challenge, origin) }, caller)
  createToken(parts, now(), { name: 'proven again' })
  expect(told().filter(({ type }) => type === 'login.proved')).toHaveLength(2)
})

test('a proof is by who is logged in: not by the passkey of somebody else, nor by a password without its code', async () => {
  const mine = device()
  await setPassword(parts, owner, 'owner', password)
  const { secret } = withTotp(mine.actor)
  addUser(parts, owner, { name: 'bob', role: 'member' })
  const bob: Actor = { kind: 'member', user: parts.store.people.byName('bob')!.id, name: 'bob', door: 'http' }
  const foreign = await withPasskey(bob)
  foreign.counter++
  const { ticket, options } = await askPasskey(parts, origin, caller)
  const passkey = foreign.get(options.challenge, origin)
  await expect(proveByPasskey(parts, mine, { ticket, passkey }, caller)).rejects.toThrow('not one of "owner"')
  await expect(proveByPassword(parts, mine, { password }, caller)).rejects.toThrow('code')
  parts.at += 30_000
  await proveByPassword(parts, mine, { password, code: totp(secret, stepAt(parts.at)) }, caller)
})

test('askPasskey() gives one address so many challenges, and they push out nothing of anybody else', async () => {
  await setPassword(parts, owner, 'owner', password)
  const { actor } = device()
  withTotp(actor)
  const waiting = await byPassword(parts, { name: 'owner', password }, caller)
  const ask = (address: string) => askPasskey(parts, origin, { address })
  for (let n = 0; n < 100; n++) await ask('198.51.100.7')
  await expect(ask('198.51.100.7')).rejects.toThrow(refused('too_many'))
  await expect(ask('2001:db8::1')).resolves.toHaveProperty('ticket')
  // They are no tries: whoever shares the address may still log in.
  await expect(byPassword(parts, { name: 'owner', password: 'x' }, { ...caller, address: '198.51.100.7' })).rejects.toThrow(
    refused('unauthenticated'),
  )
  for (let n = 0; n < 10_001; n++) parts.attempts.keep({ kind: 'passkey', challenge: 'c', origin })
  expect(waiting.secret === null && parts.attempts.see('second', waiting.ticket)).toMatchObject({ user: firstOwner })
})

test('whoIs() lets in whoever is known also when nothing can be written down', () => {
  const { secret } = device()
  vi.spyOn(parts.store.tokens, 'touch').mockImplementation(() => {
    throw new Error('database or disk is full')
  })
  parts.at += 10 * 60_000
  expect(whoIs(parts, secret, 'cookie', caller)).not.toBeNull()
})

test('revokeOthers() logs out every other device of mine and nothing else, and their streams end at once', () => {
  const [mine, other] = [device(), device()]
  const program = createToken(parts, owner, { name: 'program' }).secret
  const stream = parts.watches.open(() => whoIs(parts, other.secret, 'cookie', caller) !== null, new AbortController().signal)
  const own = parts.watches.open(() => whoIs(parts, mine.secret, 'cookie', caller) !== null, new AbortController().signal)
  expect(revokeOthers(parts, mine.actor, mine.token)).toBe(1)
  expect([stream.signal.aborted, own.signal.aborted]).toEqual([true, false])
  expect(whoIs(parts, other.secret, 'cookie', caller)).toBeNull()
  expect(whoIs(parts, mine.secret, 'cookie', caller)).not.toBeNull()
  expect(whoIs(parts, program, 'bearer', caller)).not.toBeNull()
})

test('revokeOthers() with tokens leaves nothing of mine but this device and the command line of the machine', () => {
  const [mine, other] = [device(), device()]
  const program = createToken(parts, owner, { name: 'program' }).secret
  // Nobody else's may pass for it.
  expect(() => createToken(parts, owner, { name: cliTokenName })).toThrow(refused('bad_request'))
  const own = { user: parts.store.people.get(owner.user!)!, name: cliTokenName, role: 'bearer', lifeMs: null } as const
  const cli = transaction(parts, (tx) => makeToken(tx, owner, own)).secret
  const link = createLoginLink(parts, owner, 'http://localhost').url.split('#login=')[1]!
  expect(revokeOthers(parts, mine.actor, mine.token, { tokens: true })).toBe(2)
  expect([whoIs(parts, other.secret, 'cookie', caller), whoIs(parts, program, 'bearer', caller)]).toEqual([null, null])
  expect(() => logIn(parts, link, caller)).toThrow(refused('unauthenticated'))
  expect(whoIs(parts, mine.secret, 'cookie', caller)).not.toBeNull()
  expect(whoIs(parts, cli, 'bearer', caller)).not.toBeNull()
})
