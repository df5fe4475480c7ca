import type { Attachment } from '@anchorhold/link/attach'
import { systemClock } from '@anchorhold/link/clock'
import { expect, test } from 'vitest'
import { gateProcess } from './gate-process.ts'
import type { Launched } from './launch.ts'
import type { Sources } from './sources.ts'

/** A gate that is found only after so many launches; each launch ends as it is told to. */
function launches(outcomes: readonly Launched[], foundAfter: number) {
  let launched = 0
  const attachment: Attachment = {
    open: true,
    do: async () => ({ sessions: [], env: [] }),
    ack() {},
    close() {},
  } as unknown as Attachment
  const sources = {
    attach: async () => {
      if (launched < foundAfter) throw new Error('nobody listens')
      return attachment
    },
  } as unknown as Sources
  const gate = gateProcess({
    folders: { gateSocket: '/nowhere/gate.sock', gateLog: '/nowhere/gate.log' },
    launch: async () => outcomes[launched++] ?? { ready: true, pid: 1 },
    sources,
    clock: systemClock,
    env: () => ({}),
    onUp() {},
  })
  return { gate, count: () => launched }
}

test('ensure() starts a gate anew that was ended before it was found', async () => {
  const { gate, count } = launches(
    [
      { ready: true, pid: 1 },
      { ready: false, code: null },
      { ready: true, pid: 2 },
    ],
    3,
  )
  await gate.ensure()
  expect({ up: gate.up, launches: count() }).toEqual({ up: true, launches: 3 })
  gate.detach()
})

test('ensure() says why when a gate ends each time before it is found', async () => {
  const { gate } = launches([], Infinity)
  await expect(gate.ensure()).rejects.toThrow('Cannot start the gate: it ended as soon as it stood')
  gate.detach()
})

test('ensure() passes on what a gate that will not stand says of itself, with its remedy', async () => {
  const why = { message: 'Cannot find the key in the keyring: it is locked', hint: 'Unlock it' }
  const { gate, count } = launches([{ ready: false, code: 74, why }], 1)
  await expect(gate.ensure()).rejects.toMatchObject({ code: 'gate_unavailable', ...why })
  expect(count()).toBe(1)
  gate.detach()
})
