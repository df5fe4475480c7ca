import { systemClock } from '@anchorhold/link/clock'
import type { NewEvent } from '@anchorhold/protocol/events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { Failure } from '@anchorhold/protocol/failures'
import { createSession } from '../sessions/create-session.ts'
import { enqueue } from '../prompts/enqueue.ts'
import { reconciler } from './reconcile.ts'
import { owner, record, testParts } from '../test-parts.ts'
import { transaction } from '../../transaction.ts'

/** A keeper that has begun a turn. */
const atWork: readonly NewEvent[] = [
  { type: 'keeper.started', body: { rung: 'bwrap', agent: 'a', agent_version: '1', limits: [], resumed: false } },
  { type: 'turn.started', body: { cause: 'prompt', prompt: null } },
]

test('findKeepers() does not wait for one that hangs, which is taken in when it is gone', async () => {
  using parts = testParts()
  const { id } = await createSession(parts, owner, {})
  record(parts, id, ...atWork)
  const hung = Promise.withResolvers<void>()
  Object.assign(parts.keepers, {
    async reattach(_: unknown, lost: () => void) {
      await hung.promise
      lost()
      return false
    },
  })
  let late = () => {}
  let looks = 0
  const clock = { ...systemClock, after: (__: number, then: () => void) => ((late = then), () => {}) }
  const finding = reconciler(parts, { look: () => void looks++ }, clock).findKeepers()
  late()
  await finding
  expect(parts.store.sessions.get(id)?.state).toBe('working')
  hung.resolve()
  await vi.waitFor(() => expect(parts.store.sessions.get(id)?.state).toBe('interrupted'))
  await vi.waitFor(() => expect(looks).toBe(1))
})

test('a session whose dead keeper left what cannot be read has failed and says so, and has lost its keeper only when it was read', async () => {
  using parts = testParts()
  const { id } = await createSession(parts, owner, {})
  await vi.waitFor(() => expect(parts.keepers.has(id)).toBe(true))
  parts.keepers.vanish(id)
  record(parts, id, ...atWork)
  const unread = new Failure('keeper_unavailable', 'Cannot read what it left', { hint: 'Mend the disk' })
  parts.keepers.reattach = () => Promise.reject(unread)
  const reconcile = reconciler(parts, { look() {} })
  await reconcile.findKeepers()
  const lost = () => parts.all(id).filter(({ type }) => type === 'keeper.lost')
  const starts = parts.keepers.starts
  expect(parts.store.sessions.get(id)).toMatchObject({ state: 'failed', why: 'Cannot read what it left (Mend the disk)' })
  expect([lost(), parts.gate.commands.at(-1)]).toEqual([[], { do: 'close', session: id }])
  // The same in a daemon that has seen it die, and nothing is said twice.
  reconcile.keeperUnread(id, unread)
  expect(parts.all(id).filter((event) => event.type === 'session.state' && event.body.to === 'failed')).toHaveLength(1)

  parts.keepers.reattach = async (_, found) => (found?.(), false)
  await reconcile.findKeepers()
  expect([parts.store.sessions.get(id)?.state, lost().length, parts.keepers.starts]).toEqual(['interrupted', 1, starts])
})

test('a session at rest has not failed where its keeper said that it leaves, and what it left cannot be read', async () => {
  using parts = testParts()
  const { id } = await createSession(parts, owner, {})
  record(parts, id, atWork[0]!, { type: 'keeper.left', body: { why: 'idle', failed: false } })
  const reconcile = reconciler(parts, { look() {} })
  reconcile.keeperUnread(id, new Failure('keeper_unavailable', 'Cannot read what it left'))
  expect(parts.store.sessions.get(id)?.state).toBe('ready')
  transaction(parts, (tx) => enqueue(tx, owner, id, { text: 'Go on' }, 'prompt'))
  reconcile.keeperUnread(id, new Failure('keeper_unavailable', 'Cannot read what it left'))
  expect(parts.store.sessions.get(id)).toMatchObject({ state: 'failed', why: 'Cannot read what it left' })
})

test('findKeepers() looks for the gate as well, where a keeper may wait to be told of its records', async () => {
  using parts = testParts()
  const { id } = await createSession(parts, owner, {})
  record(parts, id, {
    type: 'keeper.started',
    body: { rung: 'bwrap', agent: 'claude', agent_version: '1', limits: [], resumed: false },
  })
  let gateSought = false
  parts.gate.ensure = async () => void (gateSought = true)
  let soughtFirst: boolean | null = null
  parts.keepers.reattach = async () => {
    soughtFirst = gateSought
    return true
  }
  await reconciler(parts, { look() {} }).findKeepers()
  expect(soughtFirst).toBe(true)
})

test('findKeepers() looks for the keeper of a session that was being made; without one it is ready', async () => {
  using parts = testParts()
  const { id } = await createSession(parts, owner, {})
  expect(parts.store.sessions.get(id)?.state).toBe('creating')
  const sought: string[] = []
  parts.keepers.reattach = async (session) => {
    sought.push(session)
    return sought.length === 1
  }
  const { findKeepers } = reconciler(parts, { look() {} })
  await findKeepers()
  expect(parts.store.sessions.get(id)?.state).toBe('creating')
  await findKeepers()
  expect(parts.store.sessions.get(id)?.state).toBe('ready')
  expect(sought).toEqual([id, id])
})

test.each([
  ['stopped', 'leave'],
  ['paused', 'pause'],
  ['working', 'resume'],
] as const)(
  'a keeper that is found while the log says %s is told to %s, which a daemon before this one may not have come to',
  async (to, told) => {
    using parts = testParts()
    const { id } = await createSession(parts, owner, {})
    record(parts, id, ...atWork)
    await vi.waitFor(() => expect(parts.keepers.has(id)).toBe(true))
    await new Promise((resolve) => setImmediate(resolve))
    parts.keepers.vanish(id)
    parts.keepers.commands.length = 0
    if (to !== 'working') record(parts, id, { type: 'session.state', body: { from: 'working', to, why: null } })
    parts.keepers.reattach = async (session) => {
      await parts.keepers.ensure(session)
      return true
    }
    await reconciler(parts, { look() {} }).findKeepers()
    await vi.waitFor(() => expect(parts.keepers.commands.map(({ command }) => command.do)).toContain(told))
    expect(parts.keepers.has(id)).toBe(to !== 'stopped')
  },
)

test('gateUp() opens no window for what was ended', async () => {
  using parts = testParts()
  const { id } = await createSession(parts, owner, {})
  await vi.waitFor(() => expect(parts.keepers.has(id)).toBe(true))
  await new Promise((resolve) => setImmediate(resolve))
  record(parts, id, { type: 'session.state', body: { from: 'creating', to: 'stopped', why: null } })
  parts.gate.commands.length = 0
  const reconcile = reconciler(parts, { look() {} })
  await reconcile.findKeepers()
  await reconcile.gateUp([])
  await new Promise((resolve) => setImmediate(resolve))
  expect(parts.gate.commands.filter((command) => command.do === 'open')).toEqual([])
})

test('findKeepers() starts no gate where nobody works', async () => {
  using parts = testParts()
  let gateSought = false
  parts.gate.ensure = async () => void (gateSought = true)
  await reconciler(parts, { look() {} }).findKeepers()
  expect(gateSought).toBe(false)
})

test('policyChanged() tells the gate anew what live sessions may spend', async () => {
  using parts = testParts()
  const { id } = await createSession(parts, owner, {})
  await parts.keepers.ensure(id)
  parts.gate.commands.length = 0
  reconciler(parts, { look() {} }).policyChanged()
  await vi.waitFor(() => expect(parts.gate.commands).toContainEqual(expect.objectContaining({ do: 'open', session: id })))
})

test('policyChanged() takes the net window from sessions that were made with one, and lets none go on with what cannot be taken', async () => {
  using parts = testParts()
  const { doctor } = parts
  Object.assign(parts, {
    async doctor() {
      const report = await doctor({ fresh: false, rung: 'bwrap' })
      return { ...report, rungs: [...report.rungs, { ...report.rungs[0]!, rung: 'none' }] }
    },
  })
  const write = (text: string) => {
    mkdirSync(parts.config.config, { recursive: true })
    writeFileSync(join(parts.config.config, 'policy.yaml'), text)
    parts.policies.reload()
  }
  const { id } = await createSession(parts, owner, {})
  const { id: bare } = await createSession(parts, owner, { rung: 'none' })
  for (const one of [id, bare]) await parts.keepers.ensure(one)
  const reconcile = reconciler(parts, { look() {} })
  const told = (network: string) =>
    vi.waitFor(() => expect(parts.gate.commands).toContainEqual(expect.objectContaining({ do: 'open', session: id, network })))
  reconcile.policyChanged()
  await told('proxy_only')
  write('network_mode: none\n')
  reconcile.policyChanged()
  await told('none')
  await vi.waitFor(() =>
    expect(parts.keepers.commands).toContainEqual({
      session: bare,
      command: {
        do: 'leave',
        why: expect.stringContaining('it has network host, and the policy says "none"') as string,
      },
    }),
  )
  // One that is still being started is told when it stands.
  const standing = Promise.withResolvers<void>()
  parts.keepers.standing = () => standing.promise
  parts.keepers.vanish(bare)
  const starts = parts.keepers.ensure(bare)
  parts.keepers.commands.length = 0
  parts.gate.commands.length = 0
  reconcile.policyChanged()
  await told('none')
  standing.resolve()
  await starts
  await vi.waitFor(() => expect(parts.keepers.commands.map(({ command }) => command.do)).toContain('leave'))
  parts.gate.commands.length = 0
  write('')
  reconcile.policyChanged()
  await told('proxy_only')
})

test('findKeepers() takes up what a daemon that died had not lived to take up, and leaves alone what is to wait', async () => {
  using parts = testParts()
  const crash: NewEvent[] = [
    ...atWork,
    { type: 'turn.ended', body: { reason: 'crashed', why: 'The agent died', duration_ms: 1 } },
    { type: 'keeper.left', body: { why: 'The agent died', failed: false } },
  ]
  const [goesOn, waits] = await Promise.all(
    (['resume', 'wait'] as const).map((on_crash) => createSession(parts, owner, { on_crash })),
  )
  for (const { id } of [goesOn!, waits!]) {
    record(parts, id, ...crash)
    expect(parts.store.sessions.get(id)?.state).toBe('interrupted')
  }
  await reconciler(parts, { look() {} }).findKeepers()
  expect([goesOn!, waits!].map(({ id }) => parts.store.sessions.get(id)?.state)).toEqual(['ready', 'interrupted'])
})

test('findKeepers() looks for what a keeper left that was to take up a crash, and that could not be read', async () => {
  using parts = testParts()
  const { id } = await createSession(parts, owner, { on_crash: 'resume' })
  record(parts, id, ...atWork, { type: 'keeper.lost', body: { why: 'killed' } })
  record(parts, id, { type: 'session.state', body: { from: 'interrupted', to: 'failed', why: 'Cannot read what it left' } })
  const sought: string[] = []
  parts.keepers.reattach = async (session) => (sought.push(session), false)
  await reconciler(parts, { look() {} }).findKeepers()
  expect(sought).toEqual([id])
})
