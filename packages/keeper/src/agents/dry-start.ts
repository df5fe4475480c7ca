import { PassThrough } from 'node:stream'
import type { Cell, CellProcess } from '../cells/cell.ts'
import type { AgentDriver, AgentListener } from './agent.ts'

/** Starts an agent for nobody, in a cell in which nothing runs: what its driver has to load and compile for a first start is there when
 *  somebody waits for one. */
export async function dryStart({ start }: AgentDriver): Promise<void> {
  const agent = await start({
    cell: emptyCell,
    files: { program: '/agent', node: '/node', forwarder: '/forwarder', reader: '/reader' },
    workspace: '/workspace',
    home: '/home',
    windows: '/windows',
    model: 'none',
    conversation: '00000000-0000-4000-8000-000000000000',
    resume: false,
    forgetAfter: [],
    unfinished: [],
    takeUp: false,
    tools: null,
    systemPrompt: null,
    plan: false,
    workspaceSettings: 'ignore',
    modelRoute: 'socket',
    network: 'proxy_only',
    trust: null,
    path: [],
    env: {},
    heard: nobody,
  })
  await agent[Symbol.asyncDispose]()
}

const emptyCell: Cell = {
  limits: [],
  ended: new Promise(() => {}),
  trouble: { ending: null, met: null },
  place: (hostPath) => hostPath,
  spawn: silent,
  onTerminal: async () => 0,
  async [Symbol.asyncDispose]() {},
}

/** Says nothing, and ends when its input does. */
function silent(): CellProcess {
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()]
  const exited = Promise.withResolvers<number>()
  let exitCode: number | null = null
  function end(): true {
    exitCode ??= 0
    stdout.end()
    stderr.end()
    exited.resolve(exitCode)
    return true
  }
  stdin.resume().once('end', end)
  return {
    ...{ stdin, stdout, stderr, kill: end, exited: exited.promise, killed: false },
    get exitCode() {
      return exitCode
    },
  }
}

const nobody: AgentListener = {
  event() {},
  stored: async () => {},
  live() {},
  state() {},
  tasks() {},
  result() {},
  ask: async () => ({ decision: 'deny' }),
  mayRun: async () => ({ allow: false, why: 'nobody asked' }),
  gone() {},
}
