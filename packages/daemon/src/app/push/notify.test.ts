import type { Actor } from '@anchorhold/core/actors'
import type { NewEvent, RequestAction } from '@anchorhold/protocol/events'
import {
  newPromptId,
  newRequestId,
  newUserId,
  type PromptId,
  type RequestId,
  type SessionId,
  type TokenId,
} from '@anchorhold/protocol/ids'
import { randomBytes } from 'node:crypto'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Sent } from '../../push/push-service.ts'
import { createToken } from '../people/access.ts'
import { createSession } from '../sessions/create-session.ts'
import { notifier } from './notify.ts'
import { addPushDevice, listPushDevices, notWatching, removePushDevice, watching } from './push.ts'
import { owner, record, type TestParts, testParts } from '../test-parts.ts'

type Told = { readonly to: string; readonly message: Record<string, unknown> }
let parts: TestParts
let told: Told[]
let answer: Sent
let token: TokenId
beforeEach(() => {
  told = []
  answer = 'sent'
  const made = testParts()
  const push = {
    ...made.push,
    async send({ endpoint }: { endpoint: string }, message: string) {
      told.push({ to: endpoint, message: JSON.parse(message) as Record<string, unknown> })
      return answer
    },
  }
  parts = Object.assign(made, { push })
  token = createToken(parts, owner, { name: 'phone' }).token.id
})
afterEach(() => parts[Symbol.dispose]())

const keys = { p256dh: 'A'.repeat(87), auth: 'A'.repeat(22) }
const add = (actor: Actor = owner, of = token, endpoint = 'https://push.example.com/a') =>
  addPushDevice(parts, actor, of, { endpoint, keys, name: 'Phone' })
const hear = (id: SessionId, ...events: readonly NewEvent[]) => {
  const before = parts.all(id).length
  record(parts, id, ...events)
  notifier(parts).heard(parts.all(id).slice(before))
}
const asks = (action: RequestAction, id: RequestId = newRequestId(randomBytes)): NewEvent => ({
  type: 'request.opened',
  body: { id, call: null, action },
})
const command = (text: string): RequestAction => ({ kind: 'tool', tool: 'Bash', input: { command: text } })
const ended = (reason: 'done' | 'interrupted' | 'waiting' | 'error', left?: PromptId[]): NewEvent => ({
  type: 'turn.ended',
  body: { reason, why: null, duration_ms: 1, ...(left === undefined ? {} : { left }) },
})
const session = async () => (await createSession(parts, owner, { name: 'Na\u202Eme' })).id

test('notifier() tells of a request in its exact words, with what can be done', async () => {
  add()
  hear(await session(), asks(command('git push')))
  expect(told).toMatchObject([
    { to: 'https://push.example.com/a', message: { kind: 'request', title: '“Na\\u{202e}me” wants to run', body: 'git push' } },
  ])
  expect(told[0]!.message['actions']).toEqual(['allow', 'deny'])
})

test('notifier() lets nothing be allowed from outside the app that asks for a fresh proof or is not shown whole', async () => {
  add()
  const id = await session()
  hear(id, asks({ kind: 'host', program: 'deploy', params: {} }), asks(command(`echo ${'x'.repeat(1000)}`)))
  hear(id, asks(command('deploy --token abcdef123')))
  expect(told.map(({ message }) => message['actions'])).toEqual([['deny'], ['deny'], ['deny']])
  expect(JSON.stringify(told)).not.toContain('abcdef123')
})

test('notifier() tells of a turn that nobody watched, and not of one that somebody ended', async () => {
  add()
  const id = await session()
  hear(id, ended('interrupted'), ended('waiting'))
  parts.presence.seen(owner.user!, id)
  hear(id, ended('done'))
  expect(told).toEqual([])
  parts.at += 31_000
  hear(id, ended('done'))
  expect(told).toMatchObject([{ message: { kind: 'turn', session: id, actions: [] } }])
  const end = new AbortController()
  parts.presence.follow(owner.user!, id, end.signal)
  hear(id, ended('done'))
  expect(told).toHaveLength(1)
  end.abort()
  hear(id, ended('done'))
  expect(told).toHaveLength(2)
  // Who looked at it a moment ago and has put the phone away is told.
  watching(parts, owner, id)
  notWatching(parts, owner, id)
  hear(id, ended('done'))
  expect(told).toHaveLength(3)
  // What came too late for a turn is taken up at once; of what went wrong people hear all the same.
  hear(id, ended('done', [newPromptId(randomBytes)]))
  expect(told).toHaveLength(3)
  hear(id, ended('error', [newPromptId(randomBytes)]))
  expect(told).toHaveLength(4)
})

test('notifier() tells nobody who may not answer, and no device whose login is gone', async () => {
  const user = newUserId(randomBytes)
  parts.store.people.insert({ id: user, name: 'm', role: 'member', policy: null, created_at: 1 })
  const member: Actor = { kind: 'member', user, name: 'm', door: 'test' }
  add(member, createToken(parts, owner, { name: 'theirs', user: 'm' }).token.id)
  const id = await session()
  hear(id, asks(command('ls')), ended('done'))
  expect(told).toEqual([])
  add(owner, token, 'https://push.example.com/b')
  parts.store.tokens.remove(token)
  hear(id, asks(command('ls')))
  expect(told).toEqual([])
  expect(listPushDevices(parts, owner, null)).toEqual([])
})

test('notifier() forgets a device that its push service does not know any more', async () => {
  add()
  const id = await session()
  answer = 'failed'
  hear(id, asks(command('ls')))
  await Promise.resolve()
  expect(listPushDevices(parts, owner, token)).toMatchObject([{ this_one: true, service: 'push.example.com' }])
  answer = 'gone'
  hear(id, asks(command('ls')))
  await new Promise((resolve) => setImmediate(resolve))
  expect(listPushDevices(parts, owner, token)).toEqual([])
})

test('addPushDevice() takes one for each browser, a bounded number, and none in the own network', () => {
  add()
  add()
  expect(listPushDevices(parts, owner, token)).toHaveLength(1)
  expect(() => add(owner, token, 'https://10.0.0.1/')).toThrow(/public network/)
  for (let n = 1; n < 20; n++) add(owner, token, `https://push.example.com/${n}`)
  expect(() => add(owner, token, 'https://push.example.com/x')).toThrow(/there are 20/)
  const [first] = listPushDevices(parts, owner, token)
  const stranger: Actor = { kind: 'member', user: newUserId(randomBytes), name: 's', door: 'test' }
  expect(() => removePushDevice(parts, stranger, first!.id)).toThrow(/no device/)
  removePushDevice(parts, owner, first!.id)
  expect(listPushDevices(parts, owner, token)).toHaveLength(19)
})
