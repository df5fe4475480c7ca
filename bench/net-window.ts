import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { constants, setPriority, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as wait } from 'node:timers/promises'
import { stepBack } from '@anchorhold/keeper/cells/limits/processes'
import { interleave, type Ratio } from './measure.ts'
import { ask, connectSecurely, type Way } from './parts/secure-calls.ts'

const rounds = 12
const transferBytes = 64 * 1024 * 1024
const callsPerRound = 40
const keptCallsPerRound = 150
const warmUpCalls = 400
const connections = 500
/** How often each of them asks for something. */
const everyMs = 1000
/** What opening and closing them takes is over by then. */
const settleMs = 1500
const streamsPerRound = 1000
/** Quicker than what people read, or any model of today says it. */
const wordMs = 10
const wordyStreamsPerRound = 2
const streamRounds = 5

/** The net window against no proxy, against the least that a proxy can do, and what one cell's use of it costs another's model. */
export async function netWindowBench(): Promise<Ratio[]> {
  const folder = mkdtempSync(join(tmpdir(), 'ah-bench-'))
  const children: ChildProcess[] = []
  const part = (name: string) => join(import.meta.dirname, 'parts', name)
  const start = (...args: string[]) => {
    const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit', 'ignore'], env: {} })
    children.push(child)
    return child
  }
  try {
    const [key, cert] = [join(folder, 'key'), join(folder, 'cert')]
    const made = [
      'req',
      '-x509',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:prime256v1',
      '-nodes',
      '-days',
      '2',
      '-subj',
      '/CN=bench',
    ]
    execFileSync('openssl', [...made, '-addext', 'subjectAltName=DNS:tunnel.test,DNS:open.test', '-keyout', key, '-out', cert], {
      stdio: 'ignore',
    })
    const ca = readFileSync(cert, 'utf8')
    const [originFile, modelFile] = [join(folder, 'origin'), join(folder, 'model')]
    // It stands for another machine, which takes no processor from this one: here it has what nobody else wants.
    setPriority(start(part('tls-origin.ts'), originFile, key, cert).pid!, constants.priority.PRIORITY_LOW)
    start(part('upstream.ts'), modelFile)
    const isWritten = (path: string) => existsSync(path) && readFileSync(path, 'utf8') !== ''
    await until(() => isWritten(originFile) && isWritten(modelFile))
    const port = Number(readFileSync(originFile, 'utf8'))
    const [plainProxy, tlsProxy] = [join(folder, 'plain.sock'), join(folder, 'tls.sock')]
    start(part('connect-proxy.ts'), plainProxy, String(port))
    start(part('connect-proxy.ts'), tlsProxy, String(port), key, cert)

    const [gateFolder, busy, quiet] = [join(folder, 'gate'), join(folder, 'busy'), join(folder, 'quiet')]
    for (const each of [gateFolder, busy, quiet]) mkdirSync(each)
    const gate = spawn(process.execPath, [join(import.meta.dirname, '../dist/gate.mjs'), gateFolder], {
      stdio: ['ignore', 'ignore', 'inherit', 'pipe'],
      env: {},
    })
    children.push(gate)
    const at = `127.0.0.1:${port}`
    const allow = (host: string, how: string) => ({ on: 'net', match: { host, port: 443 }, effect: 'allow', how })
    const net = {
      rules: [allow('tunnel.test', 'tunnel'), allow('open.test', 'open')],
      net: { ca, mirrors: { 'tunnel.test:443': at, 'open.test:443': at } },
    }
    writeFileSync(join(folder, 'net.json'), JSON.stringify(net))
    await until(() => existsSync(join(gateFolder, 'link.sock')) && existsSync(plainProxy) && existsSync(tlsProxy))
    start(
      part('daemon.ts'),
      join(gateFolder, 'link.sock'),
      `${busy},${quiet}`,
      readFileSync(modelFile, 'utf8'),
      join(folder, 'net.json'),
    )
    const window = join(busy, 'net.sock')
    await until(() => isWritten(join(quiet, 'authority')))
    const sessionCa = readFileSync(join(busy, 'authority'), 'utf8')

    const direct: Way = { port }
    const by = (socketPath: string, host: string): Way => ({ socketPath, authority: `${host}:443` })
    type Contender = { readonly way: Way; readonly host: string; readonly ca: string }
    const plain: Contender = { way: by(plainProxy, 'tunnel.test'), host: 'tunnel.test', ca }
    const tunnel: Contender = { way: by(window, 'tunnel.test'), host: 'tunnel.test', ca }
    const ending: Contender = { way: by(tlsProxy, 'open.test'), host: 'open.test', ca }
    const opened: Contender = { way: by(window, 'open.test'), host: 'open.test', ca: sessionCa }

    /** A connection of its own for each call, as most programs make them. */
    const calls =
      ({ way, host, ca: trusted }: Contender, times = callsPerRound) =>
      async () => {
        const started = performance.now()
        for (let i = 0; i < times; i++) {
          const secure = await connectSecurely(way, host, trusted)
          await ask(secure, host, '/')
          secure.destroy()
        }
        return (performance.now() - started) / times
      }
    const keptCalls = async ({ way, host, ca: trusted }: Contender) => {
      const secure = await connectSecurely(way, host, trusted)
      return async () => {
        const started = performance.now()
        for (let i = 0; i < keptCallsPerRound; i++) await ask(secure, host, '/')
        return (performance.now() - started) / keptCallsPerRound
      }
    }
    const transfer = (way: Way) => async () => {
      const secure = await connectSecurely(way, 'tunnel.test', ca)
      const started = performance.now()
      await ask(secure, 'tunnel.test', `/${transferBytes}`)
      const took = performance.now() - started
      secure.destroy()
      return took
    }
    for (const one of [plain, tunnel, ending, opened]) await calls(one, warmUpCalls)()
    const moved = await interleave(
      rounds,
      { direct: transfer(direct), plain: transfer(plain.way), window: transfer(tunnel.way) },
      { warmUp: 2 },
    )
    const tunnelled = await interleave(rounds, { proxy: calls(plain), window: calls(tunnel) })
    const looked = await interleave(rounds, { proxy: calls(ending), window: calls(opened) })
    const kept = await interleave(rounds, { proxy: await keptCalls(ending), window: await keptCalls(opened) }, { warmUp: 3 })

    /** A cell that makes use of a proxy, patient as all that runs in cells is. */
    const crowd = (proxy: string) => {
      const cell = start(part('many-connections.ts'), proxy, 'tunnel.test:443', cert, String(connections), String(everyMs))
      stepBack(cell.pid!)
      const lines = createInterface({ input: cell.stdout! })
      return async (what: 'open' | 'close') => {
        const told = once(lines, 'line')
        cell.stdin!.write(`${what}\n`)
        await told
      }
    }
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const model = join(quiet, 'model.sock')
    const instants = async () => {
      const took: number[] = []
      for (let i = 0; i < streamsPerRound; i++) took.push((await stream(model, agent, 'hello')).tookMs)
      return p99(took)
    }
    const words = async () => {
      const gaps: number[] = []
      for (let i = 0; i < wordyStreamsPerRound; i++)
        gaps.push(...(await stream(model, agent, `a word every ${wordMs} ms`)).gapsMs)
      return p99(gaps)
    }
    const besides = (measure: () => Promise<number>, tell: ReturnType<typeof crowd>) => async () => {
      await tell('open')
      await wait(settleMs)
      const worst = await measure()
      await tell('close')
      await wait(settleMs)
      return worst
    }
    const [here, there] = [crowd(window), crowd(plainProxy)]
    const beside = (measure: () => Promise<number>) =>
      interleave(streamRounds, { alone: measure, crowded: besides(measure, here), elsewhere: besides(measure, there) })
    const spoken = await beside(words)
    const instant = await beside(instants)
    const ms = (value: number) => `${value.toFixed(2)} ms`
    const perSecond = (took: number) => `${(transferBytes / took / 1000).toFixed(0)} MB/s`
    const held = { must: 1.3, record: 1.1, better: 'below' } as const
    const heldOpen = { must: 1.5, record: 1.2, better: 'below' } as const
    return [
      {
        name: 'throughput of a CONNECT through the net window ÷ a bare CONNECT proxy',
        value: moved.ratio('plain', 'window'),
        must: 0.6,
        record: 0.95,
        better: 'above',
        note: `${perSecond(moved.ms.window)} against ${perSecond(moved.ms.plain)}; ÷ direct TLS ${moved.ratio('direct', 'window').toFixed(2)}`,
      },
      {
        name: 'a request in `tunnel` ÷ a minimal CONNECT proxy',
        value: tunnelled.ratio('window', 'proxy'),
        ...held,
        note: `${ms(tunnelled.ms.window)} against ${ms(tunnelled.ms.proxy)}, with a connection of its own`,
      },
      {
        name: 'a request in `open` ÷ a minimal TLS-terminating proxy',
        value: looked.ratio('window', 'proxy'),
        ...heldOpen,
        note: `${ms(looked.ms.window)} against ${ms(looked.ms.proxy)}, with a connection of its own`,
      },
      {
        name: 'a request in `open` on a kept connection ÷ the same proxy',
        value: kept.ratio('window', 'proxy'),
        ...heldOpen,
        note: `${ms(kept.ms.window)} against ${ms(kept.ms.proxy)}`,
      },
      {
        name: `between two words of another session's model stream beside ${connections} connections of one cell ÷ without, p99`,
        value: spoken.ratio('crowded', 'alone'),
        must: 1.2,
        record: 1.05,
        better: 'below',
        note: `${ms(spoken.ms.crowded)} against ${ms(spoken.ms.alone)}, from a model that says one every ${wordMs} ms; each connection asks for a page every ${everyMs} ms; through a bare proxy instead ${spoken.ratio('elsewhere', 'alone').toFixed(2)}. From a model that says all at once, whole answers ${instant.ratio('crowded', 'alone').toFixed(2)} (${ms(instant.ms.crowded)} against ${ms(instant.ms.alone)}), through a bare proxy ${instant.ratio('elsewhere', 'alone').toFixed(2)}`,
      },
    ]
  } finally {
    for (const child of children) child.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Reads one answer of a model to its end. */
function stream(socketPath: string, agent: Agent, prompt: string): Promise<{ tookMs: number; gapsMs: number[] }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ tookMs: number; gapsMs: number[] }>()
  const body = JSON.stringify({
    model: 'claude-sonnet-5',
    max_tokens: 100,
    stream: true,
    messages: [{ role: 'user', content: prompt }],
  })
  const started = performance.now()
  const headers = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    'anthropic-version': '2023-06-01',
  }
  const call = request({ socketPath, agent, method: 'POST', path: '/v1/messages', headers }, (response) => {
    const heard: number[] = []
    response.on('data', () => heard.push(performance.now()))
    response.once('end', () =>
      response.statusCode === 200
        ? resolve({ tookMs: performance.now() - started, gapsMs: heard.slice(1).map((at, index) => at - heard[index]!) })
        : reject(new Error(`status ${response.statusCode}`)),
    )
  })
  call.on('error', reject)
  call.end(body)
  return promise
}

const p99 = (values: readonly number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length * 0.99)]!

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await wait(5)
}
