import type { NewEvent } from '@anchorhold/protocol/events'
import { spawn } from 'node:child_process'
import { expect, test, vi } from 'vitest'
import type { Cell } from '../../cells/cell.ts'
import { cellProcess } from '../../cells/cell-process.ts'
import type { Agent, AgentListener } from '../agent.ts'
import { claudeDriver } from './claude.ts'
import { unstoredBytesMax } from '../held-output.ts'

/** A cell that is none, in which this stands where the CLI is. */
function cellWith(script: string): Cell {
  return {
    limits: [],
    place: (path) => path,
    onTerminal: async () => 0,
    ended: new Promise(() => {}),
    trouble: { ending: null, met: null },
    spawn(argv, { env }) {
      const words = argv[0] === '/claude' ? [process.execPath, '-e', script] : argv
      const child = spawn(words[0], words.slice(1), { env: { ...env }, stdio: ['pipe', 'pipe', 'pipe'] })
      return cellProcess(child, (signal) => child.kill(signal))
    },
    [Symbol.asyncDispose]: async () => {},
  }
}

async function started(script: string, stored: () => Promise<void> = async () => {}) {
  const events: NewEvent[] = []
  const gone = Promise.withResolvers<string>()
  const heard: AgentListener = {
    event: (event) => void events.push(event),
    stored,
    live: () => {},
    state: () => {},
    tasks: () => {},
    result: () => {},
    ask: () => expect.unreachable(),
    mayRun: () => expect.unreachable(),
    gone: gone.resolve,
  }
  const agent: Agent = await claudeDriver.start({
    cell: cellWith(script),
    files: { program: '/claude', node: '/node', forwarder: '/forwarder', reader: '/reader' },
    ...{ workspace: '/', home: '/nonexistent', windows: '/windows', model: 'm', trust: null, path: [], env: {} },
    ...{ conversation: '00000000-0000-4000-8000-000000000000', resume: false, forgetAfter: [], unfinished: [], takeUp: false },
    ...{ tools: null, systemPrompt: null, plan: false, workspaceSettings: 'ignore', modelRoute: 'socket', network: 'none' },
    heard,
  })
  return { agent, events, gone: gone.promise }
}

/** Says the same for ever, as fast as it is read. */
const flood = (said: string) => `const said = ${said}; (function more() { process.stdout.write(said, more) })()`

test('claudeDriver ends an agent that writes a line without an end, and says why', async () => {
  const { agent, gone } = await started(flood(`'x'.repeat(1000000)`))
  expect(await gone).toBe('The agent was ended: it wrote a line of more than 64 MiB, which no message is')
  await agent[Symbol.asyncDispose]()
})

test('claudeDriver hears no more of an agent that says more than can be stored, and the rest when it is', async () => {
  const chars = 1_000_000
  const message = { type: 'assistant', parent_tool_use_id: null, message: { id: 'm', content: [{ type: 'text', text: '#' }] } }
  let release = Promise.withResolvers<void>()
  let waits = 0
  const stored = () => (waits++, release.promise)
  const said = `${JSON.stringify(JSON.stringify(message))}.replace('#', 'x'.repeat(${chars})) + '\\n'`
  const { agent, events } = await started(flood(said), stored)
  const most = Math.ceil((unstoredBytesMax + 1024 * 1024) / chars)
  for (let round = 1; round <= 3; round++) {
    await vi.waitFor(() => expect(waits).toBe(round), 10_000)
    // What can still come has come when another process has been started and has ended.
    await new Promise((resolve) => spawn(process.execPath, ['-e', '']).once('exit', resolve))
    expect(waits).toBe(round)
    expect(events.length).toBeLessThanOrEqual(most * round)
    expect(events.length).toBeGreaterThanOrEqual((most - 3) * round)
    const before = release
    release = Promise.withResolvers()
    before.resolve()
  }
  // It can be ended while it waits.
  await vi.waitFor(() => expect(waits).toBe(4), 10_000)
  await agent[Symbol.asyncDispose]()
})
