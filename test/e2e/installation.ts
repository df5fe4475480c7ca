import { keepsCompiled } from '@anchorhold/core/compiled'
import { api } from '@anchorhold/protocol/api/api'
import { client, type Client, openStream } from '@anchorhold/protocol/client'
import type { Event, LiveFrame } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { Session } from '@anchorhold/protocol/sessions'
import { spawn } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import { giveTo } from './host.ts'

export const root = join(import.meta.dirname, '../..')
export const command = join(root, 'bin/anchorhold.mjs')

export const isRoot = process.getuid?.() === 0
/** Whose a workspace is when the tests run as root: cells do not run as root. */
export const someone = { uid: 1_000_123, gid: 1_000_123 }

/** A script for the rehearsal provider, as a prompt. */
export const script = (...steps: readonly unknown[]) => `SCRIPT64:${Buffer.from(JSON.stringify(steps)).toString('base64')}:END`

/** Waits until the world is as it should be; the test's own time limit ends it otherwise. */
export async function until<T>(look: () => T | Promise<T>): Promise<NonNullable<T>> {
  for (;;) {
    const seen = await look()
    if (seen) return seen
    await wait(20)
  }
}

/** What the agent said and did, from its events. */
export const textOf = (events: readonly Event[]): string =>
  events.flatMap((event) => (event.type === 'text' ? [event.body.text] : [])).join('\n')
export const outputsOf = (events: readonly Event[]): string =>
  events.flatMap((event) => (event.type === 'tool.finished' ? [event.body.output] : [])).join('\n')

/** A program that was started and has not ended yet. */
export type Running = {
  readonly pid: number
  readonly out: string
  readonly err: string
  readonly ended: Promise<Ran>
  kill(signal: NodeJS.Signals): void
}

export type Ran = { readonly code: number | null; readonly out: string; readonly err: string }

/** An installation of its own: a state folder, a daemon on a free port, and the command line that goes with them. */
export interface Installation extends AsyncDisposable {
  readonly state: string
  readonly url: string
  readonly token: string
  readonly api: Client
  /** Starts the daemon, again if need be; `url`, `token` and `api` are of the one that runs now. */
  up(): Promise<void>
  /** The same, as a service manager does it: the daemon by itself, without the command line. */
  upByItself(): Promise<void>
  /** Runs `anchorhold …` as a person would, and waits for its end. */
  cli(
    args: readonly string[],
    options?: { readonly input?: string; readonly env?: Readonly<Record<string, string>> },
  ): Promise<Ran>
  /** Starts `anchorhold …` and lets it run. */
  start(args: readonly string[]): Running
  /** A call without the typed client, for what it would not send. */
  raw(path: string, init?: RequestInit): Promise<Response>
  /** A folder that a cell may be given. */
  workspace(files?: Readonly<Record<string, string>>): string
  /** Everything in a session's log. */
  log(session: SessionId): Promise<Event[]>
  /** Follows a session's stream from a number until `done` says so, or for good until the signal. */
  follow(session: SessionId, after: number, done: (seen: Seen) => boolean, signal?: AbortSignal): Promise<Seen[]>
  /** Waits for the first event after a number that fits. */
  event(session: SessionId, after: number, fits: (event: Event) => boolean): Promise<Event>
  /** Sends a prompt and waits for the end of the turn that took it up; gives what was stored since. */
  turn(session: SessionId, prompt: string, more?: Record<string, unknown>): Promise<Event[]>
  /** Creates a session with a prompt and waits for the end of its turn. */
  run(prompt: string, options?: Record<string, unknown>): Promise<{ readonly session: Session; readonly events: Event[] }>
}
export type Seen = { readonly event?: Event; readonly live?: LiveFrame }

export type InstallationOptions = {
  readonly config?: string
  readonly policy?: string
  readonly env?: Readonly<Record<string, string>>
  /** A daemon that is started again listens where the one before did: a browser knows it by its port. */
  readonly samePort?: boolean
  /** Where it is, if not in a folder of its own. */
  readonly base?: string
}

/** Short: unix sockets lie below it. Passable: as root, cells run as other users. */
export function makeBase(): string {
  const base = mkdtempSync(join(tmpdir(), 'ah-'))
  chmodSync(base, 0o711)
  return base
}

export async function installation({
  config,
  policy,
  env = {},
  samePort = false,
  base = makeBase(),
}: InstallationOptions = {}): Promise<Installation> {
  const state = join(base, 's')
  for (const [name, text] of Object.entries({ config, policy })) {
    if (text === undefined) continue
    mkdirSync(join(state, 'config'), { recursive: true })
    writeFileSync(join(state, `config/${name}.yaml`), text)
  }
  const cli: Installation['cli'] = (args, options = {}) =>
    start(process.execPath, [command, '--state', state, ...args], options.input, { ...env, ...options.env }).ended
  const connect = () => {
    const { url } = JSON.parse(readFileSync(join(state, 'daemon.json'), 'utf8')) as { url: string }
    const token = readFileSync(join(state, 'cli.token'), 'utf8')
    const options = { url, headers: { authorization: `Bearer ${token}` } }
    return { url, token, options, api: client({ ...options, contract: api }) }
  }
  const up = async () => {
    const { code, out, err } = await cli(['up', '--detach', '--port', port])
    if (code !== 0) throw new Error(`The daemon did not start: ${out}${err}`)
    return connect()
  }
  let port = '0'
  let daemon = await up()
  if (samePort) port = new URL(daemon.url).port
  let made = 0

  const it: Installation = {
    state,
    get url() {
      return daemon.url
    },
    get token() {
      return daemon.token
    },
    get api() {
      return daemon.api
    },
    async up() {
      daemon = await up()
    },
    async upByItself() {
      const child = spawn(process.execPath, [join(root, 'dist/daemon.mjs'), '--state', state, '--port', '0'], {
        detached: true,
        env: { ...process.env, ...keepsCompiled(state) },
        stdio: ['ignore', 'ignore', 'inherit', 'pipe'],
      })
      child.unref()
      const said = await text(child.stdio[3] as Readable)
      if (said !== 'ready') throw new Error(`The daemon did not start: ${said}`)
      daemon = connect()
    },
    cli,
    start: (args) => start(process.execPath, [command, '--state', state, ...args], '', env),
    raw: (path, init = {}) => fetch(`${daemon.url}${path}`, init),
    workspace(files = {}) {
      const folder = join(base, `w${++made}`)
      mkdirSync(folder)
      for (const [name, text] of Object.entries(files)) {
        mkdirSync(dirname(join(folder, name)), { recursive: true })
        writeFileSync(join(folder, name), text)
      }
      if (isRoot) giveTo(folder, someone)
      return folder
    },
    async log(id) {
      const events: Event[] = []
      for (;;) {
        const page = await daemon.api.sessionEvents({ params: { id }, query: { after: events.at(-1)?.seq ?? 0, limit: 1000 } })
        events.push(...page.events)
        if (!page.more) return events
      }
    },
    async follow(id, after, done, signal) {
      const end = new AbortController()
      signal?.addEventListener('abort', () => end.abort(), { signal: end.signal })
      const seen: Seen[] = []
      for await (const one of sse(
        await openStream(daemon.options, 'sessionEvents', { params: { id }, query: { after } }, end.signal),
      )) {
        seen.push(one)
        if (done(one)) break
      }
      end.abort()
      return seen
    },
    async event(id, after, fits) {
      const seen = await it.follow(id, after, ({ event }) => event !== undefined && fits(event))
      return seen.at(-1)!.event!
    },
    async turn(id, words, more = {}) {
      const { last_seq: before } = await daemon.api.getSession({ params: { id } })
      const receipt = await daemon.api.prompt({ params: { id }, body: { text: words, ...more } })
      let taken = false
      const seen = await it.follow(id, before, ({ event }) => {
        if (event?.type === 'prompt' && event.body.id === receipt.id) taken = true
        // A turn that was as good as over when it was steered leaves the prompt to the next one.
        if (event?.type === 'turn.ended')
          return taken && (event.body.reason === 'waiting' || event.body.left?.includes(receipt.id) !== true)
        return event?.type === 'session.state' && event.body.to === 'failed'
      })
      return seen.flatMap(({ event }) => (event === undefined ? [] : [event]))
    },
    async run(prompt, more = {}) {
      const session = await daemon.api.createSession({ body: { prompt: { text: prompt }, ...more } })
      await it.follow(
        session.id,
        0,
        ({ event }) => event?.type === 'turn.ended' || (event?.type === 'session.state' && event.body.to === 'failed'),
      )
      return { session: await daemon.api.getSession({ params: { id: session.id } }), events: await it.log(session.id) }
    },
    async [Symbol.asyncDispose]() {
      await cli(['down', '--all'])
      rmSync(base, { recursive: true, force: true })
    },
  }
  return it
}

async function* sse(body: ReadableStream<Uint8Array>): AsyncGenerator<Seen> {
  let rest = ''
  const decoder = new TextDecoder()
  for await (const chunk of body) {
    rest += decoder.decode(chunk, { stream: true })
    const frames = rest.split('\n\n')
    rest = frames.pop() ?? ''
    for (const frame of frames) {
      const type = /^event: (.*)$/m.exec(frame)?.[1]
      const data = /^data: (.*)$/m.exec(frame)?.[1]
      if (type === undefined || data === undefined) continue
      if (type.endsWith('.delta') || type === 'tool.progress') yield { live: JSON.parse(data) as LiveFrame }
      else yield { event: JSON.parse(data) as Event }
    }
  }
}

export function start(file: string, args: readonly string[], input = '', env: Readonly<Record<string, string>> = {}): Running {
  const child = spawn(file, args, { env: { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '/', ...env } })
  let out = ''
  let err = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text))
  child.stdin.on('error', () => {})
  child.stdin.end(input)
  return {
    pid: child.pid ?? 0,
    get out() {
      return out
    },
    get err() {
      return err
    },
    ended: new Promise((resolve, reject) => {
      child.once('error', reject)
      // By which signal it ended is told where somebody looks who did not expect it.
      child.once('close', (code, signal) => resolve({ code, out, err: signal === null ? err : `${err}(ended by ${signal})` }))
    }),
    kill: (signal) => void child.kill(signal),
  }
}
