import type { Attachment } from '@anchorhold/link/attach'
import { systemClock } from '@anchorhold/link/clock'
import type { GateCommand } from '@anchorhold/protocol/gate-commands'
import { afterEach, expect, test, vi } from 'vitest'
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
    host: { launch: async () => outcomes[launched++] ?? { ready: true, pid: 1 }, holder: () => null, kill() {} },
    sources,
    clock: systemClock,
    env: () => ({}),
    beatMs: null,
    log() {},
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

/** A gate that a test can make hang: it keeps its lock and its connections, and answers nothing. */
function hangingGate() {
  let alive: { readonly pid: number; hangs: boolean; close(): void } | null = null
  let pids = 0
  const killed: number[] = []
  const logged: string[] = []
  const sources = {
    async attach(_source: string, _path: string, onClose: () => void) {
      const mine = alive
      if (mine === null) throw new Error('nobody listens')
      if (mine.hangs) await new Promise((_, reject) => setTimeout(() => reject(new Error('no hello')), 10_000))
      mine.close = onClose
      const isMine = () => alive === mine
      return {
        pid: mine.pid,
        get open() {
          return isMine()
        },
        do: () => (mine.hangs ? new Promise(() => {}) : Promise.resolve({ sessions: [], env: [] })),
        ack() {},
        close() {},
      } as unknown as Attachment
    },
  } as unknown as Sources
  const start = () => (alive = { pid: ++pids, hangs: false, close() {} })
  const gate = gateProcess({
    folders: { gateSocket: '/nowhere/gate.sock', gateLog: '/nowhere/gate.log' },
    host: {
      launch: async () => (alive === null ? { ready: true, pid: start().pid } : { ready: false, code: 75 }),
      holder: () => alive?.pid ?? null,
      kill(pid) {
        killed.push(pid)
        const { close } = alive!
        alive = null
        close()
      },
    },
    sources,
    clock: systemClock,
    env: () => ({}),
    beatMs: 5000,
    log: (message) => void logged.push(message),
  })
  const hang = () => void ((alive ?? start()).hangs = true)
  return { gate, hang, killed, logged }
}

afterEach(() => vi.useRealTimers())

test('a gate that hangs is ended within twenty seconds, and another one stands', async () => {
  vi.useFakeTimers()
  const { gate, hang, killed, logged } = hangingGate()
  await gate.ensure()
  await vi.advanceTimersByTimeAsync(60_000)
  expect(killed).toEqual([])
  hang()
  await vi.advanceTimersByTimeAsync(20_000)
  expect({ killed, up: gate.up }).toEqual({ killed: [1], up: true })
  expect(logged).toEqual([expect.stringContaining('The gate (process 1) answers nothing')])
  expect(await gate.do({ do: 'ping' })).toEqual({ sessions: [], env: [] })
  gate.detach()
})

test('ensure() ends a gate that hangs as it is found, by the lock that it holds', async () => {
  vi.useFakeTimers()
  const { gate, hang, killed } = hangingGate()
  hang()
  const standing = gate.ensure()
  await vi.advanceTimersByTimeAsync(20_000)
  await standing
  expect({ killed, up: gate.up }).toEqual({ killed: [1], up: true })
  gate.detach()
})

/** Gates with the variables that each was started with; the launch of one waits until it is let go. */
function variedGates() {
  let alive: { readonly env: readonly string[]; close(): void } | null = null
  const started: (readonly string[])[] = []
  const launching = Promise.withResolvers<void>()
  const sources = {
    async attach(_source: string, _path: string, onClose: () => void) {
      const mine = alive
      if (mine === null) throw new Error('nobody listens')
      mine.close = onClose
      const leave = () => {
        alive = null
        setImmediate(onClose)
        return {}
      }
      return {
        get open() {
          return alive === mine
        },
        do: async (command: GateCommand) => (command.do === 'leave' ? leave() : { sessions: [], env: mine.env }),
        ack() {},
        close() {},
      } as unknown as Attachment
    },
  } as unknown as Sources
  const gate = gateProcess({
    folders: { gateSocket: '/nowhere/gate.sock', gateLog: '/nowhere/gate.log' },
    host: {
      async launch(env) {
        started.push(Object.keys(env))
        await launching.promise
        alive = { env: Object.keys(env), close() {} }
        return { ready: true, pid: started.length }
      },
      holder: () => null,
      kill() {},
    },
    sources,
    clock: systemClock,
    env: (more) => Object.fromEntries([...more].map((name) => [name, 'a value'])),
    beatMs: null,
    log() {},
  })
  return { gate, started, letGo: () => launching.resolve() }
}

test('restartWith() brings a gate with the variable, also where one is just being started without it', async () => {
  const { gate, started, letGo } = variedGates()
  const first = gate.ensure()
  await vi.waitFor(() => expect(started).toHaveLength(1))
  const both = [gate.restartWith('KEY'), gate.restartWith('KEY')]
  letGo()
  await Promise.all([first, ...both])
  expect(started).toEqual([[], ['KEY']])
  expect(await gate.do({ do: 'ping' })).toEqual({ sessions: [], env: ['KEY'] })
  // It has it by now.
  await gate.restartWith('KEY')
  expect(started).toHaveLength(2)
  gate.detach()
})
