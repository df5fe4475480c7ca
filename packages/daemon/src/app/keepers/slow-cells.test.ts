import type { LimitInForce } from '@anchorhold/protocol/rungs'
import { expect, test, vi } from 'vitest'
import { createSession } from '../sessions/create-session.ts'
import { heardOfSlowCells } from './slow-cells.ts'
import { owner, record, testParts } from '../test-parts.ts'

const started = (slowness?: number) => {
  const cpu: LimitInForce = { name: 'cpu', value: '1 CPU', enforcement: 'enforced', how: 'x', ...(slowness ? { slowness } : {}) }
  return {
    type: 'keeper.started' as const,
    body: { rung: 'microvm' as const, agent: 'a', agent_version: '1', limits: [cpu], resumed: false },
  }
}

test('heardOfSlowCells() has the windows of a slow cell wait longer for it, and leaves those of others', async () => {
  using parts = testParts()
  const [slow, usual] = [await createSession(parts, owner, {}), await createSession(parts, owner, {})]
  record(parts, slow.id, started(20))
  record(parts, usual.id, started())
  const events = parts.store.events.afterPos(0, 100, null)
  parts.gate.commands.length = 0
  heardOfSlowCells(parts, events)
  await vi.waitFor(() => expect(parts.gate.commands).toMatchObject([{ do: 'open', session: slow.id, net: { slowness: 20 } }]))
})
