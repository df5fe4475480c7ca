import { endpointFile, places, tokenFile } from '@anchorhold/core/places'
import { client, type Client, type ClientOptions } from '@anchorhold/protocol/client'
import { Failure } from '@anchorhold/protocol/failures'
import { spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'

/** A daemon that answers. */
export type Daemon = { readonly options: ClientOptions; readonly api: Client; readonly url: string; readonly pid: number }

export type Where = { readonly state: string; readonly moved: boolean }

/** The state folder this command is about. */
export function stateFolder(flag: string | undefined): Where {
  const uid = process.getuid?.() ?? -1
  const where = places({ uid, home: homedir(), env: process.env, stateFlag: flag ?? null })
  return { state: resolve(where.state), moved: flag !== undefined || process.env.ANCHORHOLD_STATE !== undefined }
}

/** The running daemon, or null. */
export async function findDaemon({ state }: Where): Promise<Daemon | null> {
  let endpoint: { url: string; pid: number }
  let token: string
  try {
    endpoint = JSON.parse(readFileSync(endpointFile(state), 'utf8')) as typeof endpoint
    token = readFileSync(tokenFile(state), 'utf8').trim()
  } catch {
    return null
  }
  const options: ClientOptions = { url: endpoint.url, headers: { authorization: `Bearer ${token}` } }
  const api = client(options)
  try {
    await api.health({}, AbortSignal.timeout(5000))
  } catch (error) {
    // A port that another program took since, or nobody: either way it is not ours.
    if (error instanceof Failure && error.code === 'unauthenticated') return null
    if (error instanceof Failure) throw error
    return null
  }
  return { options, api, url: endpoint.url, pid: endpoint.pid }
}

export type StartOptions = { readonly where: Where; readonly port?: string | undefined }

/** Starts a daemon that outlives this command, and waits until it answers. */
export async function startDaemon({ where, port }: StartOptions): Promise<Daemon> {
  mkdirSync(where.state, { recursive: true, mode: 0o711 })
  const logPath = `${where.state}/daemon.log`
  const log = openSync(logPath, 'a', 0o600)
  const script = join(dirname(fileURLToPath(import.meta.url)), 'daemon.mjs')
  const args = [...(where.moved ? ['--state', where.state] : []), ...(port === undefined ? [] : ['--port', port])]
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', script, ...args], {
    detached: true,
    cwd: '/',
    // Compiled code is kept, so that the next start need not compile it again.
    env: { ...process.env, NODE_COMPILE_CACHE: `${where.state}/compiled` },
    stdio: ['ignore', log, log, 'pipe'],
  })
  closeSync(log)
  const word = child.stdio[3] as Readable
  word.setEncoding('utf8')
  let heard = ''
  for await (const text of word as AsyncIterable<string>) heard += text
  child.unref()
  if (heard !== 'ready' && !heard.includes('Another daemon')) {
    const why = heard.replace(/^failed /, '').trim()
    throw new Failure('internal', why === '' ? 'The daemon did not start' : why, { hint: `See ${logPath}` })
  }
  const daemon = await findDaemon(where)
  if (daemon === null) throw new Failure('internal', 'The daemon started, and does not answer', { hint: `See ${logPath}` })
  return daemon
}
