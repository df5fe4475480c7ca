import { once } from 'node:events'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { request } from 'node:http'
import { createConnection } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '@anchorhold/link/clock'
import { memoryDisk } from '@anchorhold/link/memory-disk'
import { openOutbox } from '@anchorhold/link/outbox'
import type { RequestId } from '@anchorhold/protocol/ids'
import { settlePath } from '@anchorhold/protocol/link'
import { expect, onTestFinished, test } from 'vitest'
import { openBooks } from './money/books.ts'
import { rateLimits } from './money/rates.ts'
import { terms as told } from './money/test-books.ts'
import { connections } from './providers/connections.ts'
import { sessionsServed } from './sessions.ts'
import { plainAuthority, rehearsal, session, textOf } from './test-gate.ts'
import { modelWindows } from './windows/model/opening.ts'
import { scriptedWindows } from './windows/test-scripted/scripted.ts'
import type { WindowKind } from './windows/window.ts'

const done = async () => {}

/** Sessions with a model window and whatever stands beside it. */
async function withWindows(...more: readonly WindowKind[]) {
  const folder = await mkdtemp(join(tmpdir(), 'ah-sessions-'))
  const outbox = await openOutbox({ disk: memoryDisk(), now: () => 0 })
  const leases = { nodes: async () => [], putNodes: done, list: async () => [], put: done, remove: done }
  let calls = 0
  const books = await openBooks({ outbox, leases, now: () => 0, newCall: () => `${calls++}`, soon: done, onBroken() {} })
  const secrets = { seal: String, open: String, openInside: String, holds: () => true }
  const lines = connections()
  const shared = { books, rates: rateLimits(systemClock), now: () => 0, log() {}, heldMs: 1, alone: false, tell() {} }
  const model = modelWindows({
    ...shared,
    providers: { secrets, env: {}, rehearsalSocket: join(folder, 'api'), connections: lines },
  })
  const sessions = sessionsServed({ books, kinds: [model, ...more], env: {}, now: () => 0, tell() {}, say() {} })
  onTestFinished(async () => {
    await sessions.close()
    await lines.close()
    await rm(folder, { recursive: true })
  })
  const command = {
    ...{ ...told, do: 'open' as const, session, folder, provider: rehearsal, network: 'proxy_only' as const },
    ...{ budget_nanos: null, spent_nanos: 0, spent_to: 0, closed: false, agent_cap_nanos: null, certificate: true },
    ...{ ledger: { simulated: true, at: 0, to: 0, nodes: [] }, authority: plainAuthority },
  }
  return { folder, command, verbs: sessions.verbs }
}

test('a third window is opened, told and closed as the two others are', async () => {
  const happened: string[] = []
  const since = () => happened.splice(0)
  const { folder, command, verbs } = await withWindows(scriptedWindows(happened))
  expect(await verbs.open(command)).toEqual({ authority: 'whom to trust' })
  expect((await readdir(folder)).toSorted()).toEqual(['model.sock', 'third.sock'])
  expect(since()).toEqual(['fit'])
  const said = createConnection(join(folder, 'third.sock'))
  expect(String((await once(said, 'data'))[0])).toBe(session)
  // The end of a turn, as a keeper tells the model window.
  const [settled] = await once(
    request({ socketPath: join(folder, 'model.sock'), path: settlePath, method: 'POST' }).end(),
    'response',
  )
  await textOf(settled)
  expect(since()).toEqual(['flush'])
  await verbs.pause({ do: 'pause', session })
  await verbs.policy({ do: 'policy', session, policy: plainAuthority.policy })
  await verbs.budget({ do: 'budget', session, budget_nanos: 1 })
  expect(since()).toEqual(['terms', 'rules', 'money', 'retry'])
  await verbs.ledger({ ...command.ledger, do: 'ledger' })
  expect(since()).toEqual(['money', 'retry'])
  await expect(verbs.price({ do: 'price', session, request: 'req_0000000000000001' as RequestId })).rejects.toThrow(
    'No call waits',
  )
  await verbs.open({ ...command, network: 'none' })
  expect(await readdir(folder)).toEqual(['model.sock'])
  expect(since()).toEqual(['terms', 'fit', 'retry'])
  await verbs.close({ do: 'close', session })
  expect([since(), await readdir(folder)]).toEqual([['close'], []])
})

test('a session that one of its windows cannot serve has none, and nothing is changed', async () => {
  const happened: string[] = []
  const { folder, command, verbs } = await withWindows(scriptedWindows(happened))
  await verbs.open(command)
  happened.splice(0)
  expect(() => verbs.open({ ...command, folder: '/forbidden' })).toThrow('Not there')
  expect(happened).toEqual([])
  await verbs.close({ do: 'close', session })
  const failing: WindowKind = {
    ...scriptedWindows(happened),
    open: async () => {
      throw new Error('No room')
    },
  }
  const other = await withWindows(failing)
  await expect(other.verbs.open(other.command)).rejects.toThrow('Cannot open the windows')
  expect([await readdir(folder), await readdir(other.folder)]).toEqual([[], []])
})
