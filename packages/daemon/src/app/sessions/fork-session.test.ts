import type { Actor } from '@anchorhold/core/actors'
import type { CreateSession } from '@anchorhold/protocol/api/sessions'
import { UserId } from '@anchorhold/protocol/ids'
import type { Config } from '../../config.ts'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { fakePolicies } from '../../policy/fake-policies.ts'
import { createSession } from './create-session.ts'
import { forkSession } from './fork-session.ts'
import { shareSession } from '../people/people.ts'
import { freshMs } from '../people/step-up.ts'
import { owner, record, type TestParts, testParts, withoutWall } from '../test-parts.ts'

let parts: TestParts
beforeEach(() => {
  parts = withoutWall(testParts())
  parts.at = 10 * freshMs
})
afterEach(() => parts[Symbol.dispose]())

function person(name: string, kind: 'member' | 'agent'): Actor {
  const id = UserId.parse(`usr_${name.padStart(16, '0')}`)
  parts.store.people.insert({ id, name, role: kind, policy: null, created_at: 1 })
  return { kind, user: id, name, door: 'test' }
}
/** With a keeper that stands. */
async function made(actor: Actor, input: CreateSession) {
  const session = await createSession(parts, actor, input)
  await new Promise((resolve) => setImmediate(resolve))
  const { id, rung } = session
  record(parts, id, {
    type: 'keeper.started',
    body: { rung, agent: 'claude', agent_version: '1', limits: [], resumed: false },
  })
  return session
}
const configured = (more: Partial<Config>) => Object.assign(parts, { config: { ...parts.config, ...more } })
const sessionCount = () =>
  parts.store.sessions.list({ archived: false, state: null, before: null, limit: 500, seenBy: null }).length

test('forkSession() asks for a fresh proof before it makes a session without a wall', async () => {
  const { id } = await made(owner, { rung: 'none' })
  await expect(forkSession(parts, { ...owner, provenAt: parts.at - freshMs - 1000 }, id, {})).rejects.toMatchObject({
    code: 'proof_needed',
    message: expect.stringContaining('start a session without a wall') as string,
  })
  await expect(forkSession(parts, { ...owner, provenAt: null }, id, {})).rejects.toMatchObject({ code: 'proof_needed' })
  expect(sessionCount()).toBe(1)
  expect((await forkSession(parts, { ...owner, provenAt: parts.at }, id, {})).rung).toBe('none')
})

test('forkSession() gives nobody another rung than the owner has pinned them to', async () => {
  const ann = person('ann', 'member')
  const { id } = await made(owner, { rung: 'none' })
  shareSession(parts, owner, id, { user: 'ann', access: 'work' })
  configured({ pins: { ann: 'bwrap' } })
  await expect(forkSession(parts, ann, id, {})).rejects.toMatchObject({ code: 'forbidden' })
  const { id: walled } = await made(owner, {})
  shareSession(parts, owner, walled, { user: 'ann', access: 'work' })
  expect((await forkSession(parts, ann, walled, {})).rung).toBe('bwrap')
})

test('forkSession() widens nothing for an agent, and lets it fork what it has made itself', async () => {
  const bot = person('bot', 'agent')
  const { id } = await made(bot, {})
  expect((await forkSession(parts, bot, id, { share_workspace: true })).forked_from).toBe(id)
  configured({ rung: 'gvisor' })
  await expect(forkSession(parts, bot, id, {})).rejects.toMatchObject({
    code: 'forbidden',
    message: expect.stringContaining('widens nothing') as string,
  })
})

test('forkSession() shares a folder with those alone who could have been given it', async () => {
  const ann = person('ann', 'member')
  const root = join(parts.config.state, '../folders')
  for (const folder of ['for-all/project', 'private']) mkdirSync(join(root, folder), { recursive: true })
  configured({ sharedFolders: [join(root, 'for-all')] })
  const forkOf = async (workspace: string | null) => {
    const { id } = await made(owner, workspace === null ? {} : { workspace: join(root, workspace) })
    shareSession(parts, owner, id, { user: 'ann', access: 'work' })
    return forkSession(parts, ann, id, { share_workspace: true })
  }
  // It would outlive the share.
  for (const workspace of [null, 'private'])
    await expect(forkOf(workspace)).rejects.toMatchObject({
      code: 'workspace_refused',
      message: expect.stringContaining('neither yours nor') as string,
    })
  const shared = await forkOf('for-all/project')
  expect(shared.workspace).toBe(join(root, 'for-all/project'))
  // What was for everybody once is not for ever.
  configured({ sharedFolders: [] })
  await expect(forkSession(parts, ann, shared.id, { share_workspace: true })).rejects.toMatchObject({ code: 'workspace_refused' })
  const own = await made(ann, {})
  expect((await forkSession(parts, ann, own.id, { share_workspace: true })).workspace).toBe(own.workspace)
})

test('forkSession() makes one session of one key, and none without where the policy requires it', async () => {
  const { id } = await made(owner, {})
  const held: TestParts = { ...parts, policies: fakePolicies({ requireIdempotency: true }) }
  await expect(forkSession(held, owner, id, {})).rejects.toThrow('requires an idempotency key')
  const [one, two] = await Promise.all([1, 2].map(() => forkSession(held, owner, id, { idempotency_key: 'k' })))
  expect(two!.id).toBe(one!.id)
  expect((await forkSession(held, owner, id, { idempotency_key: 'k' })).id).toBe(one!.id)
  expect(sessionCount()).toBe(2)
  await expect(forkSession(held, owner, id, { idempotency_key: 'k', name: 'Another' })).rejects.toMatchObject({
    code: 'conflict',
  })
  await expect(createSession(held, owner, { idempotency_key: 'k' })).rejects.toMatchObject({ code: 'conflict' })
})

test('forkSession() says in the log with which autonomy the fork begins', async () => {
  const { id } = await made(owner, { autonomy: 'restricted' })
  const fork = await forkSession(parts, owner, id, {})
  expect(fork.autonomy).toBe('restricted')
  expect(parts.all(fork.id).find(({ type }) => type === 'session.created')?.body).toMatchObject({ autonomy: 'restricted' })
})

test('forkSession() makes nothing of a session that is purged while its files are copied', async () => {
  const { id } = await made(owner, {})
  const forking = forkSession(parts, owner, id, {})
  parts.store.sessions.purge(id)
  await expect(forking).rejects.toMatchObject({ code: 'not_found' })
  expect(sessionCount()).toBe(0)
})
