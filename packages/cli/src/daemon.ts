import { endpointFile, places, tokenFile, unmadeState } from '@anchorhold/core/places'
import { keepsCompiled } from '@anchorhold/core/compiled'
import type { Client, ClientOptions } from '@anchorhold/protocol/client'
import { isOwnerGone } from '@anchorhold/link/owner'
import { Failure } from '@anchorhold/protocol/failures'
import { spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { fromHere, homeFolder } from './here.ts'

/** A daemon that answers. */
export type Daemon = {
  readonly options: ClientOptions
  readonly api: Client
  readonly url: string
  /** Null where it is known by its address alone. */
  readonly pid: number | null
}

export type Where = {
  readonly state: string
  readonly moved: boolean
  /** Who asks, where that is not whoever the state folder belongs to. */
  readonly as: { readonly token: string; readonly url: string | null } | null
}

export type WhereFlags = { readonly state?: string; readonly tokenFile?: string }

/** The state folder this command is about, and who asks. */
export function whereabouts(flags: WhereFlags, env: NodeJS.ProcessEnv = process.env): Where {
  const uid = process.getuid?.() ?? -1
  const where = places({ uid, home: homeFolder(), env, stateFlag: flags.state ?? null })
  const token = flags.tokenFile === undefined ? (env.ANCHORHOLD_TOKEN ?? '').trim() : tokenIn(flags.tokenFile)
  const url = env.ANCHORHOLD_URL ?? ''
  if (url !== '' && token === '')
    throw new Failure('bad_request', `ANCHORHOLD_URL is set to "${url}", and no token came with it`, {
      hint: 'Set ANCHORHOLD_TOKEN or give --token-file; without ANCHORHOLD_URL the daemon of the state folder is asked',
    })
  return {
    state: fromHere(where.state),
    moved: where.moved,
    as: token === '' ? null : { token, url: url === '' ? null : safeUrl(url) },
  }
}

/** Never an argument: those are seen by everybody on the machine. */
function tokenIn(path: string): string {
  let token: string
  try {
    token = readFileSync(path, 'utf8').trim()
  } catch (cause) {
    throw new Failure('bad_request', `Cannot read the token in "${path}"`, { cause })
  }
  if (!/^[\x21-\x7e]{1,500}$/.test(token)) throw new Failure('bad_request', `There is no token in "${path}"`)
  return token
}

/** A token is sent to this machine, or in secret. */
function safeUrl(text: string): string {
  const url = URL.parse(text)
  const isHere = url !== null && /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(url.hostname)
  if (url?.protocol === 'https:' || (url?.protocol === 'http:' && isHere)) return url.origin
  throw new Failure('bad_request', `Cannot send a token to "${text}": it is neither https:// nor http:// on this machine`, {
    hint: 'Set ANCHORHOLD_URL to where the daemon is reached',
  })
}

/** The running daemon, or null. */
export async function findDaemon({ state, as }: Where): Promise<Daemon | null> {
  let endpoint: { url: string; pid: number | null; mark?: string }
  let token: string
  try {
    const url = as?.url ?? null
    endpoint = url === null ? (JSON.parse(readFileSync(endpointFile(state), 'utf8')) as typeof endpoint) : { url, pid: null }
    token = as?.token ?? readFileSync(tokenFile(state), 'utf8').trim()
  } catch {
    return null
  }
  // A daemon that was killed leaves its address behind, and whoever listens there now would get the token and all that is said.
  if (endpoint.mark !== undefined && isOwnerGone(endpoint.mark)) return null
  // Loaded by whoever calls: help and version need nothing of the contract.
  const [{ client }, { cliAgent }, { api: contract }] = await Promise.all([
    import('@anchorhold/protocol/client'),
    import('@anchorhold/protocol/api/route'),
    import('@anchorhold/protocol/api/api'),
  ])
  const headers = { authorization: `Bearer ${token}`, 'user-agent': cliAgent }
  const options: ClientOptions = { url: endpoint.url, headers, contract }
  const api = client(options)
  try {
    await api.health({}, AbortSignal.timeout(5000))
  } catch (error) {
    // A port that another program took since, or nobody: either way it is not ours.
    if (error instanceof Failure && error.code === 'unauthenticated') {
      if (as === null) return null
      throw new Failure('unauthenticated', `The daemon at ${endpoint.url} does not know this token`, {
        hint: 'An owner makes one: anchorhold token add NAME --user YOU',
      })
    }
    if (error instanceof Failure) throw error
    return null
  }
  return { options, api, url: endpoint.url, pid: endpoint.pid }
}

export type StartOptions = { readonly where: Where; readonly port?: string | undefined; readonly publicUrl?: string | undefined }

/** What a daemon of this folder that was killed had been given: whoever knows where it was finds the next one there. One that ended of
 *  itself leaves nothing behind. */
export function givenBefore({ state }: Where): Pick<StartOptions, 'port' | 'publicUrl'> {
  type Endpoint = { given?: { port: string | null; publicUrl: string | null } }
  try {
    const { given } = JSON.parse(readFileSync(endpointFile(state), 'utf8')) as Endpoint
    return { port: given?.port ?? undefined, publicUrl: given?.publicUrl ?? undefined }
  } catch {
    return {}
  }
}

/** Starts a daemon that outlives this command, and waits until it answers. */
export async function startDaemon({ where, port, publicUrl }: StartOptions): Promise<Daemon> {
  const logPath = `${where.state}/daemon.log`
  const log = openLog(where.state, logPath)
  const script = join(dirname(fileURLToPath(import.meta.url)), 'daemon.mjs')
  const args = [
    ...(where.moved ? ['--state', where.state] : []),
    ...(port === undefined ? [] : ['--port', port]),
    ...(publicUrl === undefined ? [] : ['--public-url', publicUrl]),
  ]
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', script, ...args], {
    detached: true,
    cwd: '/',
    // Compiled code is kept, so that the next start need not compile it again.
    env: { ...process.env, ANCHORHOLD_TOKEN: undefined, ...keepsCompiled(where.state) },
    stdio: ['ignore', log, log, 'pipe'],
  })
  closeSync(log)
  const word = child.stdio[3] as Readable
  word.setEncoding('utf8')
  let heard = ''
  for await (const text of word as AsyncIterable<string>) heard += text
  child.unref()
  const why = heard === 'ready' ? null : whyNot(heard)
  // Another command may have been quicker. Otherwise the command line is not to blame: it says nothing of what a daemon finds.
  if (why !== null && why.code !== 'conflict') throw new Failure('internal', why.message, { hint: why.hint ?? `See ${logPath}` })
  const daemon = why === null ? await findDaemon(where) : await awaitDaemon(where)
  if (daemon === null)
    throw new Failure(
      'internal',
      `${why === null ? 'The daemon started' : 'Another daemon is being started'} but does not answer`,
      {
        hint: `See ${logPath}`,
      },
    )
  return daemon
}

/** One that somebody else has started may not answer yet. */
async function awaitDaemon(where: Where): Promise<Daemon | null> {
  const deadline = performance.now() + otherStartMs
  for (;;) {
    const daemon = await findDaemon(where)
    if (daemon !== null || performance.now() > deadline) return daemon
    await wait(50)
  }
}
const otherStartMs = 15_000

/** The first thing that is written there: where it cannot be, nothing else can. */
function openLog(state: string, path: string): number {
  try {
    mkdirSync(state, { recursive: true, mode: 0o711 })
    return openSync(path, 'a', 0o600)
  } catch (cause) {
    throw unmadeState(state, cause)
  }
}

/** What a daemon that does not stand said of it, if it came to that. */
function whyNot(heard: string): Pick<Failure, 'code' | 'message' | 'hint'> {
  try {
    return (JSON.parse(heard) as { why: Pick<Failure, 'code' | 'message' | 'hint'> }).why
  } catch {
    return { code: 'internal', message: 'The daemon did not start', hint: undefined }
  }
}
