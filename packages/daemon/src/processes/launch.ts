import { spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import type { Readable, Writable } from 'node:stream'

export type LaunchOptions = {
  readonly node: string
  readonly script: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly runAs: { readonly uid: number; readonly gid: number } | null
  readonly cwd: string
  readonly log: string
  /** Written to its standard input. */
  readonly input: string
  /** Called before it gets its input. */
  readonly onSpawned?: (pid: number) => void
  /** Ends the process as long as it does not stand yet. */
  readonly signal: AbortSignal
}

/** How long a process may take to stand. */
const readyMs = 30_000

/** How a launch ended: the process says that it stands, or it ended before it could. */
export type Launched = { readonly ready: true; readonly pid: number } | { readonly ready: false; readonly code: number | null }

/** Starts a host process of its own session group, which outlives this one, and waits until it says that it stands.
 *  It says so by closing its third descriptor, so that no pipe to it stays open. */
export function launch({ node, script, args, env, runAs, cwd, log, input, onSpawned, signal }: LaunchOptions): Promise<Launched> {
  const out = openSync(log, 'a', 0o600)
  const child = spawn(node, ['--disable-warning=ExperimentalWarning', script, ...args], {
    detached: true,
    cwd,
    env,
    stdio: ['pipe', out, out, 'pipe'],
    ...(runAs === null ? {} : { uid: runAs.uid, gid: runAs.gid }),
  })
  closeSync(out)
  if (child.pid !== undefined) onSpawned?.(child.pid)
  const stdin = child.stdio[0] as Writable
  stdin.on('error', () => {})
  stdin.end(input)
  const word = child.stdio[3] as Readable
  const kill = () => void child.kill('SIGKILL')
  const late = setTimeout(kill, readyMs)
  signal.addEventListener('abort', kill)
  if (signal.aborted) kill()
  return new Promise<Launched>((resolve, reject) => {
    let heard = ''
    child.once('error', reject)
    word.setEncoding('utf8')
    word.on('data', (text: string) => {
      heard += text
    })
    word.once('end', () => {
      if (heard.startsWith('ready')) resolve({ ready: true, pid: child.pid ?? 0 })
    })
    child.once('exit', (code) => resolve({ ready: false, code }))
    child.unref()
  }).finally(() => {
    clearTimeout(late)
    signal.removeEventListener('abort', kill)
  })
}
