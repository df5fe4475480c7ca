import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { Agent, request, type RequestOptions } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { interleave, type Ratio } from './measure.ts'

type Target = { readonly options: RequestOptions; readonly agent: Agent }

const small = JSON.stringify({ model: 'claude-sonnet-5', max_tokens: 100, messages: [{ role: 'user', content: 'hello' }] })
/** Quicker than any model; what the field's own benches of gateways use. */
const thinking = small.replace('hello', 'take 20 ms')
const streamed = small.replace('"max_tokens"', '"stream":true,"max_tokens"')
const callsPerRound = 100
const callsPerLoad = 800
const connections = 16
const rounds = 12
/** Of the shortest of all, whose rounds differ most. */
const smallRounds = 100
/** A gate runs for days: what it does is measured, not how soon the engine has compiled it, which goes on for some 20,000 calls. They are
 *  made as the measured ones are, one after another: many at once go other ways through the gate, and leave this one cold. */
const smallWarmUpRounds = 250
const warmUpCalls = 3000
const warmUpStreams = 300

/** The model window against the same calls through a bare proxy, and against no proxy at all. */
export async function modelWindowBench(): Promise<Ratio[]> {
  const folder = mkdtempSync(join(tmpdir(), 'ah-bench-'))
  const children = []
  const start = (...args: string[]) => {
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit', 'ignore'], env: {} })
    children.push(child)
    return child
  }
  try {
    const portFile = join(folder, 'port')
    start(join(import.meta.dirname, 'parts/upstream.ts'), portFile)
    await until(() => existsSync(portFile) && readFileSync(portFile, 'utf8') !== '')
    const port = Number(readFileSync(portFile, 'utf8'))
    const proxySocket = join(folder, 'proxy.sock')
    start(join(import.meta.dirname, 'parts/proxy.ts'), proxySocket, String(port))
    const gateFolder = join(folder, 'gate')
    const windows = join(folder, 'windows')
    for (const each of [gateFolder, windows]) mkdirSync(each)
    const gate = spawn(process.execPath, [join(import.meta.dirname, '../dist/gate.mjs'), gateFolder], {
      stdio: ['ignore', 'ignore', 'inherit', 'pipe'],
      env: {},
    })
    children.push(gate)
    await until(() => existsSync(proxySocket) && existsSync(join(gateFolder, 'link.sock')))
    start(join(import.meta.dirname, 'parts/daemon.ts'), join(gateFolder, 'link.sock'), windows, String(port))
    await until(() => existsSync(join(windows, 'model.sock')))
    const target = (options: RequestOptions): Target => ({
      options,
      agent: new Agent({ keepAlive: true, maxSockets: connections }),
    })
    const direct = target({ host: '127.0.0.1', port })
    const proxy = target({ socketPath: proxySocket })
    const window = target({ socketPath: join(windows, 'model.sock') })

    for (const to of [direct, proxy, window]) {
      await callAtOnce(to, small, warmUpCalls)
      for (let i = 0; i < warmUpStreams; i++) await call(to, streamed)
    }
    const calls = (to: Target) => async () => {
      const started = performance.now()
      for (let i = 0; i < callsPerRound; i++) await call(to, small)
      return (performance.now() - started) / callsPerRound
    }
    const smallCall = await interleave(
      smallRounds,
      { direct: calls(direct), proxy: calls(proxy), window: calls(window) },
      { warmUp: smallWarmUpRounds },
    )
    const firsts = (to: Target) => async () => {
      let sum = 0
      for (let i = 0; i < 20; i++) sum += await call(to, streamed)
      return sum / 20
    }
    const first = await interleave(rounds, { direct: firsts(direct), proxy: firsts(proxy), window: firsts(window) })
    const rate = (to: Target, body: string) => async () => {
      const started = performance.now()
      await callAtOnce(to, body, callsPerLoad)
      return performance.now() - started
    }
    const rates = (body: string) =>
      interleave(rounds, { direct: rate(direct, body), proxy: rate(proxy, body), window: rate(window, body) })
    const load = await rates(thinking)
    const rush = await rates(small)
    const ms = (value: number) => `${value.toFixed(2)} ms`
    return [
      {
        name: 'small call through the model window ÷ a bare node:http unix proxy',
        value: smallCall.ratio('window', 'proxy'),
        must: 2.5,
        record: 1.5,
        better: 'below',
        note: `${ms(smallCall.ms.window)} against ${ms(smallCall.ms.proxy)}; ÷ direct ${smallCall.ratio('window', 'direct').toFixed(2)}`,
      },
      {
        name: 'first token of an instant stream ÷ direct',
        value: first.ratio('window', 'direct'),
        must: 2.5,
        record: 1.2,
        better: 'below',
        note: `${ms(first.ms.window)} against ${ms(first.ms.direct)}; the bare proxy ${first.ratio('proxy', 'direct').toFixed(2)}`,
      },
      {
        name: 'requests per second at 16 connections, from a model that takes 20 ms ÷ direct',
        value: load.ratio('direct', 'window'),
        must: 0.7,
        record: 1,
        better: 'above',
        note: `the bare proxy ${load.ratio('direct', 'proxy').toFixed(2)}; from one that takes no time, where all compete for the cores, ${rush.ratio('direct', 'window').toFixed(2)}, the bare proxy ${rush.ratio('direct', 'proxy').toFixed(2)}`,
      },
    ]
  } finally {
    for (const child of children) child.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  }
}

async function callAtOnce(to: Target, body: string, times: number): Promise<void> {
  const callers = Array.from({ length: connections }, async () => {
    for (let i = 0; i < times / connections; i++) await call(to, body)
  })
  await Promise.all(callers)
}

/** Makes one call and gives the time to its first byte of body. */
function call({ options, agent }: Target, body: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const started = performance.now()
    let first = 0
    const sent = request(
      {
        ...options,
        agent,
        method: 'POST',
        path: '/v1/messages',
        headers: {
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(body),
          'anthropic-version': '2023-06-01',
        },
      },
      (response) => {
        response.on('data', () => (first ||= performance.now() - started))
        response.on('end', () =>
          response.statusCode === 200 ? resolve(first) : reject(new Error(`status ${response.statusCode}`)),
        )
      },
    )
    sent.on('error', reject)
    sent.end(body)
  })
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await wait(5)
}
