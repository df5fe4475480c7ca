import { systemClock } from '@anchorhold/link/clock'
import { rehearsalSocket } from '@anchorhold/core/places'
import type { GateCommand } from '@anchorhold/protocol/gate-commands'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { Provider } from '@anchorhold/protocol/providers'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { fakeGate } from './fake-processes.ts'
import { rehearsalHost, rehearsalProcess, type RehearsalHost, withRehearsal } from './rehearsal-process.ts'

/** The real program in a folder of its own. */
function realOne() {
  const root = mkdtempSync(join(tmpdir(), 'ah-demo-'))
  const folder = join(root, 'rehearsal')
  const place = { folder, log: join(root, 'rehearsal.log'), root: false, lasting: false }
  const script = join(import.meta.dirname, '../../../rehearsal/src/main.ts')
  const logged: string[] = []
  const one = rehearsalProcess(rehearsalHost(place, { node: process.execPath, rehearsal: script }), systemClock, (message) =>
    logged.push(message),
  )
  onTestFinished(async () => {
    one.letGo()
    await vi.waitUntil(() => pids(folder).length === 0, { timeout: 20_000 })
    rmSync(root, { recursive: true })
  })
  return { one, folder, logged }
}
const pids = (folder: string): number[] =>
  readdirSync('/proc').flatMap((name) => {
    try {
      return /^\d+$/.test(name) && readFileSync(`/proc/${name}/cmdline`, 'utf8').split('\0').includes(folder)
        ? [Number(name)]
        : []
    } catch {
      return []
    }
  })

test.skipIf(process.platform !== 'linux')(
  'the demo model stands where only its user can enter, is started again when it is killed, and ends when it is let go',
  async () => {
    const { one, folder } = realOne()
    await one.hold()
    expect((statSync(folder).mode & 0o777).toString(8)).toBe('700')
    const [first] = pids(folder)
    // Whoever asks again finds the same.
    await one.hold()
    expect(pids(folder)).toEqual([first])
    process.kill(first!, 'SIGKILL')
    const second = await vi.waitUntil(() => pids(folder).find((pid) => pid !== first && existsSync(rehearsalSocket(folder))), {
      timeout: 20_000,
    })
    expect(second).toBeGreaterThan(0)
    one.letGo()
    await vi.waitUntil(() => pids(folder).length === 0, { timeout: 20_000 })
    expect(existsSync(rehearsalSocket(folder))).toBe(false)
  },
)

test.skipIf(process.platform !== 'linux')('a demo model that outlived its daemon is found by the next one', async () => {
  const { one, folder } = realOne()
  await one.hold()
  const [pid] = pids(folder)
  const place = { folder, log: join(folder, 'log'), root: false, lasting: false }
  const next = rehearsalProcess(rehearsalHost(place, { node: '/nowhere', rehearsal: '/nowhere' }), systemClock, () => {})
  await next.hold()
  one.letGo()
  expect(pids(folder)).toEqual([pid])
  next.letGo()
})

/** A demo model that dies when a test says so, and does not start at times. */
function fakeHost() {
  let onGone: (() => void) | null = null
  const it = {
    launches: 0,
    held: 0,
    fails: false,
    stands: false,
    die() {
      it.stands = false
      onGone?.()
    },
  }
  const host: RehearsalHost = {
    async launch() {
      it.launches++
      it.stands = !it.fails
      return it.fails ? { ready: false, code: 1 } : { ready: true, pid: 1 }
    },
    async connect(gone) {
      if (!it.stands) return null
      it.held++
      const leave = () => {
        it.held--
        gone()
      }
      onGone = leave
      return {
        close() {
          if (onGone === leave) onGone = null
          leave()
        },
      }
    },
  }
  return { it, host }
}

test('hold() says that the demo model does not start, and has it tried again until it does', async () => {
  const { it, host } = fakeHost()
  const logged: string[] = []
  it.fails = true
  const one = rehearsalProcess(host, systemClock, (message) => logged.push(message))
  await expect(one.hold()).rejects.toThrow('The demo model did not start: code 1')
  await vi.waitUntil(() => logged.length > 0)
  it.fails = false
  await vi.waitUntil(() => it.held === 1)
  one.letGo()
  expect(it.held).toBe(0)
  const { launches } = it
  // Let go and held at once: what is told of the one before does not take the new one away.
  await one.hold()
  expect(it).toMatchObject({ held: 1, launches })
  it.die()
  await vi.waitUntil(() => it.held === 1 && it.launches === launches + 1)
  one.letGo()
})

const session = (n: number) => `ses_000000000000000${n}` as SessionId
const demo: Provider = { name: 'rehearsal', kind: 'rehearsal', base_url: null, auth: 'none', credential: { from: 'none' } }
const open = (n: number, provider: Provider) => ({ do: 'open', session: session(n), provider }) as GateCommand

test('withRehearsal() has the demo model run for as long as a session calls it, and no longer', async () => {
  const { it, host } = fakeHost()
  const plain = fakeGate()
  const gate = withRehearsal(
    plain,
    rehearsalProcess(host, systemClock, () => {}),
    () => {},
  )
  await gate.do(open(1, { ...demo, name: 'mine', kind: 'anthropic' }))
  expect(it.launches).toBe(0)
  await gate.do({ do: 'test', provider: demo, model: 'rehearsal-1' })
  expect(it).toMatchObject({ launches: 1, held: 0 })
  await gate.do(open(1, demo))
  await gate.do(open(2, demo))
  expect(it.held).toBe(1)
  await gate.do({ do: 'close', session: session(1) })
  expect(it.held).toBe(1)
  // With another provider from here on.
  await gate.do(open(2, { ...demo, name: 'mine', kind: 'anthropic' }))
  expect(it.held).toBe(0)
  await gate.do(open(3, demo))
  expect(it.held).toBe(1)
  await gate.do({ do: 'panic' })
  expect(it.held).toBe(0)
  expect(plain.commands.map((command) => command.do)).toEqual(['open', 'test', 'open', 'open', 'close', 'open', 'open', 'panic'])
})

test('withRehearsal() opens a session also where the demo model does not start, and says why in the log', async () => {
  const { it, host } = fakeHost()
  it.fails = true
  const logged: string[] = []
  const plain = fakeGate()
  const one = rehearsalProcess(host, systemClock, () => {})
  const gate = withRehearsal(plain, one, (message) => logged.push(message))
  await gate.do(open(1, demo))
  expect(plain.commands).toHaveLength(1)
  expect(logged).toEqual([expect.stringContaining('did not start')])
  gate.detach()
})
