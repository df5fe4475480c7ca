import type { Actor } from '@anchorhold/core/actors'
import type { RequestAction } from '@anchorhold/protocol/events'
import { newRequestId } from '@anchorhold/protocol/ids'
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createSession } from '../sessions/create-session.ts'
import { forkSession } from '../sessions/fork-session.ts'
import { prompt } from '../prompts/prompt.ts'
import { deleteProvider, putProvider } from '../money/providers.ts'
import { answerRequest } from './requests.ts'
import { deleteSecret, putSecret } from '../secrets/secrets.ts'
import { freshMs } from '../people/step-up.ts'
import { owner, record, type TestParts, testParts, withoutWall } from '../test-parts.ts'

const policy = `rules:
  - { on: tool, match: { command: 'git push *' }, effect: ask, step_up: true }
  - { on: tool, match: { tool: Write, path: 'deploy/*' }, effect: ask, step_up: true }
  - { on: net, match: { host: .bank.example }, effect: ask, step_up: true }
`
let parts: TestParts
/** At a browser that was logged in a while ago, and at one that has just shown who sits there. */
let stale: Actor
let fresh: Actor
beforeEach(() => {
  parts = withoutWall(testParts())
  parts.at = 10 * freshMs
  writeFileSync(join(parts.config.config, 'policy.yaml'), policy)
  parts.policies.reload()
  stale = { ...owner, provenAt: parts.at - freshMs - 1000 }
  fresh = { ...owner, provenAt: parts.at }
})
afterEach(() => parts[Symbol.dispose]())

const bash = (command: string): RequestAction => ({ kind: 'tool', tool: 'Bash', input: { command } })
const write = (file_path: string): RequestAction => ({ kind: 'tool', tool: 'Write', input: { file_path, content: 'x' } })
const net = (host: string): RequestAction => ({ kind: 'net', host, port: 443, method: null, path: null })
const rule = { on: 'tool', match: { tool: 'Bash', command: 'make *' }, effect: 'allow' } as const
async function asked(action: RequestAction, rung: 'none' | 'bwrap') {
  const { id: session } = await createSession(parts, owner, { rung })
  const id = newRequestId(randomBytes)
  record(
    parts,
    session,
    { type: 'keeper.started', body: { rung, agent: 'claude', agent_version: '1', limits: [], resumed: false } },
    { type: 'turn.started', body: { cause: 'prompt', prompt: null } },
    { type: 'request.opened', body: { id, call: null, action, digest: 'a'.repeat(64), rule } },
  )
  return id
}

test.each([
  ['a rule for all', bash('make'), 'rule', 'bwrap', 'make it a rule'],
  ['a command of the host', { kind: 'host', program: 'deploy', params: {} }, 'once', 'bwrap', 'a command of the host'],
  ['anything where there is no wall', bash('make'), 'once', 'none', 'no wall'],
  ['a command that a rule marks', bash('make && git push origin main'), 'session', 'bwrap', 'marks as dangerous'],
  [
    'a file that a rule marks, where the cell has it',
    write('/workspace/deploy/prod.yaml'),
    'once',
    'bwrap',
    'marks as dangerous',
  ],
  ['a host that a rule marks', net('www.bank.example'), 'once', 'bwrap', 'marks as dangerous'],
] as const)('answerRequest() asks for a fresh proof before it allows %s', async (_, action, scope, rung, words) => {
  const id = await asked(action, rung)
  const allow = (actor: Actor) => answerRequest(parts, actor, id, { decision: 'allow', scope })
  await expect(allow(stale)).rejects.toMatchObject({ code: 'proof_needed', message: expect.stringContaining(words) })
  await expect(allow({ ...stale, provenAt: null })).rejects.toMatchObject({ code: 'proof_needed' })
  expect(parts.store.requests.get(id)!.answer).toBeNull()
  expect((await allow(fresh)).answer).toMatchObject({ decision: 'allow' })
})

test.each([
  ['what is allowed once in a cell', bash('make'), { decision: 'allow' }, 'bwrap'],
  ['a host that no rule marks', net('example.org'), { decision: 'allow', scope: 'session' }, 'bwrap'],
  ['what is denied', { kind: 'host', program: 'deploy', params: {} }, { decision: 'deny' }, 'none'],
  ['a question', { kind: 'question', questions: [] }, { decision: 'allow' }, 'none'],
] as const)('answerRequest() takes the word of who is logged in for %s', async (_, action, answer, rung) => {
  const id = await asked(action as RequestAction, rung)
  expect((await answerRequest(parts, stale, id, answer)).answer).toMatchObject({ decision: answer.decision })
})

test('the command line of the machine is asked for no proof', async () => {
  const id = await asked({ kind: 'host', program: 'deploy', params: {} }, 'none')
  expect((await answerRequest(parts, owner, id, { decision: 'allow' })).answer).toMatchObject({ decision: 'allow' })
})

test('a session without a wall and a credential ask for a fresh proof', async () => {
  await expect(createSession(parts, stale, { rung: 'none' })).rejects.toMatchObject({ code: 'proof_needed' })
  const provider = { kind: 'local', base_url: 'http://127.0.0.1:1', credential: { from: 'none' } } as const
  await expect(putProvider(parts, stale, 'mine', provider)).rejects.toMatchObject({ code: 'proof_needed' })
  await createSession(parts, stale, {})
  const { id } = await createSession(parts, fresh, { rung: 'none' })
  record(parts, id, { type: 'session.state', body: { from: 'creating', to: 'ready', why: null } })
  // A copy of it has no more of a wall.
  await expect(forkSession(parts, stale, id, {})).rejects.toMatchObject({ code: 'proof_needed' })
  expect((await forkSession(parts, fresh, id, {})).rung).toBe('none')
})

test('a prompt to a session without a wall asks for a fresh proof, and one in a cell does not', async () => {
  const standing = async (rung: 'none' | 'bwrap') => {
    const { id } = await createSession(parts, fresh, { rung })
    record(parts, id, { type: 'session.state', body: { from: 'creating', to: 'ready', why: null } })
    return id
  }
  const bare = await standing('none')
  const once = { text: 'delete it', idempotency_key: 'k1' }
  for (const actor of [stale, { ...stale, provenAt: null }])
    expect(() => prompt(parts, actor, bare, once)).toThrow('Cannot prompt an agent without a wall')
  expect(parts.all(bare).filter(({ type }) => type === 'prompt.queued')).toEqual([])
  const receipt = prompt(parts, fresh, bare, once)
  // What was taken is told again without one: a page that lost the answer sends it once more.
  expect(prompt(parts, stale, bare, once)).toEqual(receipt)
  prompt(parts, owner, bare, { text: 'from the command line' })
  prompt(parts, stale, await standing('bwrap'), { text: 'in its cell' })
})

test('a provider and a secret are removed after a fresh proof', async () => {
  const provider = { kind: 'local', base_url: 'http://127.0.0.1:1', credential: { from: 'none' }, test: false } as const
  await putProvider(parts, owner, 'mine', provider)
  await putSecret(parts, owner, 'token', { value: 'x' })
  expect(() => deleteProvider(parts, stale, 'mine')).toThrow('Cannot remove the provider "mine"')
  await expect(deleteSecret(parts, stale, 'token')).rejects.toMatchObject({ code: 'proof_needed' })
  expect([parts.store.providers.list(), parts.store.secrets.list()].map(({ length }) => length)).toEqual([1, 1])
  deleteProvider(parts, fresh, 'mine')
  await deleteSecret(parts, fresh, 'token')
})
