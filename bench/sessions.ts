import { rehearsal as startRehearsal } from '@anchorhold/rehearsal/server'
import { query, type SDKUserMessage } from '@anthropic-ai/claude-agent-sdk'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { get } from 'node:http'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { sqliteStore } from '@anchorhold/daemon/store/sqlite/sqlite-store'
import { type Installation, installation } from '../test/e2e/installation.ts'
import { interleave, median, type Ratio } from './measure.ts'
import { makeSession } from './store.ts'

const prompt = 'say hello'
const rounds = 8
/** A spare keeper takes the place of one that was taken two seconds after that, and is loaded soon after. Whatever is measured meanwhile
 *  shares its cores with that. */
const quietMs = 3500

/** Whole sessions, from the request at the door to the first token at the watcher, against the SDK by itself. */
export async function sessionsBench(): Promise<Ratio[]> {
  const folder = mkdtempSync(join(tmpdir(), 'ah-bench-'))
  const rehearsal = await startRehearsal(join(folder, 'rehearsal.sock'))
  try {
    await using it = await installation()
    const bare = bareSdk(folder, rehearsal.path)
    const warmSdk = await bare.open()
    const session = await it.run(prompt)
    const cold = await interleave(rounds, {
      sdk: async () => {
        await wait(quietMs)
        return bare.cold()
      },
      session: async () => {
        await wait(quietMs)
        return firstToken(it, () => it.api.createSession({ body: { prompt: { text: prompt } } }))
      },
      warmed: async () => {
        await wait(quietMs)
        const made = await it.api.createSession({ body: {} })
        await it.follow(made.id, 0, ({ event }) => event?.type === 'keeper.started')
        // The agent has begun to start; a person would be typing now.
        await wait(1500)
        return firstToken(it, async () => {
          await it.api.prompt({ params: { id: made.id }, body: { text: prompt } })
          return made
        })
      },
    })
    const warm = await interleave(20, {
      sdk: () => warmSdk.turn(),
      session: () =>
        firstToken(it, async () => {
          await it.api.prompt({ params: { id: session.session.id }, body: { text: prompt } })
          return it.api.getSession({ params: { id: session.session.id } })
        }),
    })
    warmSdk.close()
    const memory = keeperMemory(it)
    const ms = (value: number) => `${value.toFixed(0)} ms`
    return [
      ratio(
        'cold session to its first token ÷ bare query()',
        cold.ratio('session', 'sdk'),
        1.25,
        1.1,
        `${ms(cold.ms.session)} against ${ms(cold.ms.sdk)}`,
      ),
      ratio(
        'first token of a session with a warmed cell ÷ cold',
        cold.ratio('warmed', 'session'),
        0.35,
        0.25,
        ms(cold.ms.warmed),
      ),
      ratio('second prompt of a live session ÷ cold', warm.ms.session / cold.ms.session, 0.15, 0.08, ms(warm.ms.session)),
      ratio(
        'whole stack, warm ÷ the SDK, warm',
        warm.ratio('session', 'sdk'),
        1.5,
        1.15,
        `${ms(warm.ms.session)} against ${ms(warm.ms.sdk)}`,
      ),
      await daemonStart(folder),
      await parkedSession(folder),
      ratio('memory of a keeper beyond an empty process with the SDK, MiB', memory, 12, 6, 'proportional set size'),
    ]
  } finally {
    await rehearsal.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

const ratio = (name: string, value: number, must: number, record: number, note: string): Ratio => ({
  name,
  value,
  must,
  record,
  better: 'below',
  note,
})

async function firstToken(it: Installation, begin: () => Promise<{ id: string; last_seq: number }>): Promise<number> {
  const started = performance.now()
  const made = await begin()
  let first = 0
  await it.follow(made.id as never, made.last_seq, ({ event, live }) => {
    if (first === 0 && (live?.type === 'text.delta' || event?.type === 'text')) first = performance.now() - started
    return event?.type === 'turn.ended'
  })
  return first
}

/** The SDK on the host without a cell, against the same rehearsal provider. */
function bareSdk(folder: string, socket: string) {
  const sdk = dirname(createRequire(import.meta.url).resolve('@anthropic-ai/claude-agent-sdk'))
  const program = join(sdk, '..', `claude-agent-sdk-linux-${process.arch}`, 'claude')
  let count = 0
  const options = () => {
    const home = join(folder, `home${++count}`)
    mkdirSync(join(home, 'work'), { recursive: true })
    return {
      cwd: join(home, 'work'),
      pathToClaudeCodeExecutable: program,
      model: 'rehearsal-1',
      settingSources: [],
      includePartialMessages: true,
      permissionMode: 'default' as const,
      systemPrompt: { type: 'preset' as const, preset: 'claude_code' as const },
      env: {
        PATH: process.env.PATH,
        HOME: home,
        ANTHROPIC_UNIX_SOCKET: socket,
        ANTHROPIC_BASE_URL: 'http://anthropic.internal',
        ANTHROPIC_AUTH_TOKEN: 'placeholder',
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
        ENABLE_TOOL_SEARCH: 'false',
      },
    }
  }
  const message = (): SDKUserMessage => ({ type: 'user', message: { role: 'user', content: prompt }, parent_tool_use_id: null })
  return {
    async cold(): Promise<number> {
      const started = performance.now()
      let first = 0
      for await (const one of query({ prompt, options: options() })) {
        if (first === 0 && one.type === 'stream_event' && one.event.type === 'content_block_delta')
          first = performance.now() - started
      }
      return first
    },
    async open() {
      let push: (next: SDKUserMessage | null) => void = () => {}
      async function* input() {
        for (;;) {
          const next = await new Promise<SDKUserMessage | null>((resolve) => (push = resolve))
          if (next === null) return
          yield next
        }
      }
      const live = query({ prompt: input(), options: options() })
      const turn = async () => {
        const started = performance.now()
        push(message())
        let first = 0
        for (;;) {
          const { value, done } = await live.next()
          if (done === true) return first
          if (first === 0 && value.type === 'stream_event' && value.event.type === 'content_block_delta')
            first = performance.now() - started
          if (value.type === 'result') return first
        }
      }
      await turn()
      return { turn, close: () => push(null) }
    },
  }
}

/** From the start of the daemon's process until it answers, with a thousand sessions in its log. */
async function daemonStart(folder: string): Promise<Ratio> {
  const state = join(folder, 's')
  mkdirSync(state, { recursive: true })
  const store = sqliteStore(join(state, 'anchorhold.db'))
  store.atomically(() => {
    for (let i = 0; i < 1000; i++) makeSession(store)
  })
  store.close()
  /** When the page came, and when the first call of the API was answered. */
  const daemon = () =>
    new Promise<{ page: number; call: number }>((resolve, reject) => {
      const started = performance.now()
      const script = join(import.meta.dirname, '../dist/daemon.mjs')
      const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', script, '--state', state, '--port', '0'], {
        // As `anchorhold up` starts it.
        env: { PATH: process.env.PATH, HOME: folder, NODE_COMPILE_CACHE: join(state, 'compiled') },
        stdio: ['ignore', 'ignore', 'inherit', 'pipe'],
      })
      child.once('error', reject)
      child.stdio[3]?.once('data', () => {
        const { url } = JSON.parse(readFileSync(join(state, 'daemon.json'), 'utf8')) as { url: string }
        get(url, (answer) => {
          answer.resume()
          const page = performance.now() - started
          get(`${url}/api/v1/health`, (health) => {
            health.resume()
            resolve({ page, call: performance.now() - started })
            child.kill('SIGTERM')
          }).once('error', reject)
        }).once('error', reject)
      })
      ended.push(new Promise((done) => child.once('exit', done)))
    })
  const ended: Promise<unknown>[] = []
  const calls: number[] = []
  const starts = await interleave(10, {
    node: async () => void spawnSync(process.execPath, ['-e', '0'], { env: {} }),
    page: async () => {
      const { page, call } = await daemon()
      calls.push(call)
      await Promise.all(ended.splice(0))
      await untilGone(state)
      return page
    },
  })
  // The gate that the daemons started for themselves.
  spawnSync(process.execPath, [join(import.meta.dirname, '../bin/anchorhold.mjs'), '--state', state, 'down', '--all'])
  const [node, page] = [starts.ms.node, starts.ms.page]
  return ratio(
    'daemon start to its first answer with 1,000 sessions ÷ node -e 0',
    starts.ratio('page', 'node'),
    8,
    4,
    `the page: ${page.toFixed(0)} ms against ${node.toFixed(0)} ms; the first call of the API ${(median(calls) / node).toFixed(2)}`,
  )
}

/** What a daemon has begun behind its first answer, the doctor's look and a spare keeper, would take its time from the next start. */
async function untilGone(state: string): Promise<void> {
  const isLeft = (pid: string) => {
    try {
      const argv = readFileSync(`/proc/${pid}/cmdline`, 'latin1')
      return argv.includes(state) && !argv.includes('/gate.mjs')
    } catch {
      return false // it has ended
    }
  }
  while (readdirSync('/proc').some((name) => /^\d+$/.test(name) && isLeft(name))) await wait(20)
}

/** What a session that nobody uses holds of the daemon's memory. */
async function parkedSession(folder: string): Promise<Ratio> {
  const count = 2000
  const pss = async (sessions: number) => {
    const state = join(folder, `p${sessions}`)
    mkdirSync(state, { recursive: true })
    const store = sqliteStore(join(state, 'anchorhold.db'))
    store.atomically(() => {
      for (let i = 0; i < sessions; i++) makeSession(store)
    })
    store.close()
    const script = join(import.meta.dirname, '../dist/daemon.mjs')
    const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', script, '--state', state, '--port', '0'], {
      env: { PATH: process.env.PATH, HOME: folder },
      stdio: ['ignore', 'ignore', 'inherit', 'pipe'],
    })
    await once(child.stdio[3] as Readable, 'data')
    // It starts its gate, looks at the machine and settles.
    await new Promise((resolve) => setTimeout(resolve, 3000))
    const kib = pssKib(child.pid!)
    child.kill('SIGTERM')
    await once(child, 'exit')
    spawnSync(process.execPath, [join(import.meta.dirname, '../bin/anchorhold.mjs'), '--state', state, 'down', '--all'])
    return kib
  }
  const [none, many] = [await pss(0), await pss(count)]
  const note = `${(none / 1024).toFixed(0)} MiB without, ${(many / 1024).toFixed(0)} MiB with ${count}`
  return ratio('memory of a parked session in the daemon, KiB', Math.max(0, many - none) / count, 64, 8, note)
}

const pssKib = (pid: number) => Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1] ?? 0)

function keeperMemory(it: Installation): number {
  const empty = spawn(
    process.execPath,
    [
      '--input-type=module',
      '-e',
      `await import('@anthropic-ai/claude-agent-sdk'); console.log('up'); setInterval(() => {}, 1e6)`,
    ],
    { cwd: join(import.meta.dirname, '..'), stdio: ['ignore', 'pipe', 'ignore'] },
  )
  try {
    spawnSync('sh', ['-c', `while ! grep -q . /proc/${empty.pid}/smaps_rollup; do :; done; sleep 1`])
    const keepers = spawnSync('pgrep', ['-f', `${it.state}/runtime/.*keeper.mjs`], { encoding: 'utf8' })
      .stdout.trim()
      .split('\n')
      .map(Number)
    return (median(keepers.map(pssKib)) - pssKib(empty.pid!)) / 1024
  } finally {
    empty.kill('SIGKILL')
  }
}
