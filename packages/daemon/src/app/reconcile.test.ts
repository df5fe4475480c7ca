import { expect, test, vi } from 'vitest'
import { createSession } from './create-session.ts'
import { reconciler } from './reconcile.ts'
import { record } from './parts.ts'
import { owner, testParts } from './test-parts.ts'

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
  await reconciler(() => parts, { look() {} }).findKeepers()
  expect(soughtFirst).toBe(true)
})

test('findKeepers() starts no gate where nobody works', async () => {
  using parts = testParts()
  let gateSought = false
  parts.gate.ensure = async () => void (gateSought = true)
  await reconciler(() => parts, { look() {} }).findKeepers()
  expect(gateSought).toBe(false)
})

test('policyChanged() tells the gate anew what live sessions may spend', async () => {
  using parts = testParts()
  const { id } = await createSession(parts, owner, {})
  await parts.keepers.ensure(id)
  parts.gate.commands.length = 0
  reconciler(() => parts, { look() {} }).policyChanged()
  await vi.waitFor(() => expect(parts.gate.commands).toContainEqual(expect.objectContaining({ do: 'open', session: id })))
})
