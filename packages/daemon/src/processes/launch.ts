import { spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import type { Socket } from 'node:net'
import type { Readable, Writable } from 'node:stream'
import { z } from 'zod'

export type PrepareOptions = {
  readonly node: string
  /** Further options of node. */
  readonly options?: readonly string[]
  readonly script: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly runAs: { readonly uid: number; readonly gid: number } | null
  readonly cwd: string
  readonly log: string
}

export type BeginOptions = {
  /** Written to its standard input. */
  readonly input: string
  /** Called before it gets its input. */
  readonly onSpawned?: (pid: number) => void
  /** Ends the process as long as it does not stand yet. */
  readonly signal: AbortSignal
  /** Its standard input stays open for as long as this process lives, so that it hears when that is over. */
  readonly lifeline?: boolean
}

export type Holds = 'nothing yet' | 'ready' | { readonly trouble: string }

/** A process that has loaded its program and waits to be told what to do. It ends when this process does. */
export interface Prepared {
  readonly alive: boolean
  readonly pid: number | null
  /** What it holds ready, as far as it has told: nothing yet, that it stands, or why it does not. */
  readonly holds: Holds
  /** Resolves when the process has ended. */
  readonly gone: Promise<unknown>
  /** Writes a line to its standard input, ahead of what it begins with. */
  tell(line: string): void
  begin(options: BeginOptions): Promise<Launched>
  /** Tells it that there is nothing to do for it; it ends what it has begun, and goes. */
  dismiss(): void
  discard(): void
}

/** How long a process may take to stand. */
const readyMs = 30_000

/** How a launch ended: the process says that it stands, or it ended before it could. */
export type Launched =
  | { readonly ready: true; readonly pid: number }
  | {
      readonly ready: false
      readonly code: number | null
      readonly why?: WhyNot | undefined
      /** It did not stand within this time, and was ended for it. */
      readonly lateMs?: number
    }
/** In its own words, where it had some. */
export type WhyNot = z.infer<typeof WhyNot>

/** Starts a host process of its own session group, which outlives this one once it was told to begin. It says that it stands
 *  by closing its third descriptor, so that no pipe to it stays open. */
export function prepare({ node, options = [], script, args, env, runAs, cwd, log }: PrepareOptions): Prepared {
  const out = openSync(log, 'a', 0o600)
  const child = spawn(node, ['--disable-warning=ExperimentalWarning', ...options, script, ...args], {
    detached: true,
    cwd,
    env,
    stdio: ['pipe', out, out, 'pipe'],
    ...(runAs === null ? {} : { uid: runAs.uid, gid: runAs.gid }),
  })
  closeSync(out)
  const stdin = child.stdio[0] as Writable
  stdin.on('error', () => {})
  const word = child.stdio[3] as Readable
  word.setEncoding('utf8')
  let heard = ''
  word.on('data', (text: string) => {
    heard = (heard + text).slice(-heardCharsMax)
  })
  const ended = Promise.withResolvers<Launched>()
  ended.promise.catch(() => {})
  child.once('error', ended.reject)
  child.once('exit', (code) => {
    const tell = () => ended.resolve({ ready: false, code, why: whyBy(heard) })
    // What it said last may be on its way yet.
    if (word.readableEnded) tell()
    else word.once('close', tell)
    setTimeout(tell, lastWordMs).unref()
  })
  const stands = Promise.withResolvers<Launched>()
  word.once('end', () => {
    if (/(^|\n)ready$/.test(heard)) stands.resolve({ ready: true, pid: child.pid ?? 0 })
  })
  child.unref()
  const kill = () => void child.kill('SIGKILL')
  return {
    get alive() {
      return child.pid !== undefined && child.exitCode === null && child.signalCode === null
    },
    get holds() {
      return holdsBy(heard)
    },
    pid: child.pid ?? null,
    gone: ended.promise.catch(() => null),
    tell: (line) => void stdin.write(`${line}\n`),
    begin({ input, onSpawned, signal, lifeline = false }) {
      if (child.pid !== undefined) onSpawned?.(child.pid)
      if (lifeline) {
        stdin.write(input)
        ;(stdin as Socket).unref()
      } else stdin.end(input)
      let isLate = false
      const late = setTimeout(() => {
        isLate = true
        kill()
      }, readyMs)
      signal.addEventListener('abort', kill)
      if (signal.aborted) kill()
      return Promise.race([stands.promise, ended.promise])
        .then((launched) => (isLate && !launched.ready ? { ...launched, lateMs: readyMs } : launched))
        .finally(() => {
          clearTimeout(late)
          signal.removeEventListener('abort', kill)
        })
    },
    dismiss: () => void stdin.end(),
    discard: kill,
  }
}

const heardCharsMax = 16 * 1024
const lastWordMs = 500
const WhyNot = z.object({ message: z.string(), hint: z.string().optional() })

/** What one that ended had to say for itself: its last line. */
function whyBy(heard: string): WhyNot | undefined {
  const last = heard.split('\n').at(-2)
  if (last?.startsWith('{"why":') !== true) return undefined
  return z.object({ why: WhyNot }).safeParse(JSON.parse(last)).data?.why
}

const Word = z.object({ trouble: z.string().nullable() })

/** By the last whole line of what it has told. */
function holdsBy(heard: string): Holds {
  const last = heard.split('\n').slice(0, -1).at(-1)
  if (last === undefined) return 'nothing yet'
  const { trouble } = Word.parse(JSON.parse(last))
  return trouble === null ? 'ready' : { trouble }
}

export const launch = (options: PrepareOptions & BeginOptions): Promise<Launched> => prepare(options).begin(options)

export function endProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has gone by itself.
  }
}
