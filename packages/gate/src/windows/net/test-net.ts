import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { createConnection, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { connect as connectTls, type ConnectionOptions, type TLSSocket } from 'node:tls'
import type { NetAction } from '@anchorhold/protocol/actions'
import type { EventBody, NewEvent } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import { NetTerms } from '@anchorhold/protocol/gate-commands'
import { routesOf } from '@anchorhold/core/net/routes'
import type { Rule } from '@anchorhold/protocol/policy'
import { createSecureContext } from 'node:tls'
import type { CallLine } from '../call-line.ts'
import { fillBy } from './credentials.ts'
import { type Crowd, crowd } from './crowd.ts'
import { type DialParts, dialler } from './dial.ts'
import { pourable } from './pour.ts'
import { screenForge } from './forge-calls.ts'
import { sessionCa } from './session-ca.ts'
import { netWindow } from './window.ts'

/** An address of everybody's, behind which tests put a server of their own. */
export const publicAddress = '93.184.215.14'

export type NetSetup = {
  /** Hosts that may be reached; all else is denied. */
  readonly allow?: readonly string[]
  readonly denies?: (action: NetAction) => string | null
  readonly judge?: (
    action: NetAction,
    signal: AbortSignal,
  ) => Promise<{ readonly allow: true } | { readonly allow: false; readonly why: string }>
  readonly rules?: readonly Rule[]
  readonly dial?: DialParts
  /** The port of this machine that public addresses lead to. */
  readonly upstream?: number
  readonly askMs?: number
  /** Whom the window trusts at the other end. */
  readonly trusted?: readonly string[]
  /** Here a box is the secret itself. */
  readonly net?: Partial<NetTerms>
  readonly crowd?: Crowd
  /** Below 1 for a cell that is waited for less. */
  readonly slowness?: number
  readonly alone?: boolean
}

/** A net window in a folder of its own, whose public addresses lead to a server of the test's, and clients to it. */
export async function testNet({
  allow = ['allowed.test'],
  judge,
  denies,
  rules = [],
  dial,
  upstream = 0,
  askMs,
  trusted,
  net = {},
  crowd: all = crowd(1000),
  slowness = 1,
  alone = false,
}: NetSetup) {
  const folder = mkdtempSync(join(tmpdir(), 'ah-net-'))
  const socketPath = join(folder, 'net.sock')
  const events: NewEvent[] = []
  const lines: CallLine[] = []
  const judged: NetAction[] = []
  const ahead: { readonly action: NetAction; readonly said: string }[] = []
  const resolved: string[] = []
  /** What was dialled, by address and port. */
  const dialled: string[] = []
  const terms = NetTerms.parse(net)
  const session = 'ses_0000000000000001' as SessionId
  const ca = sessionCa(Buffer.alloc(32, 7), session, Date.now)
  const window = await netWindow({
    session,
    ca,
    trust: () => createSecureContext(trusted === undefined ? {} : { ca: [...trusted] }),
    folder,
    alone,
    judge: async (action, patience) => {
      judged.push(action)
      const isAllowed = allow.includes(action.host)
      const verdict =
        (await judge?.(action, patience())) ?? (isAllowed ? { allow: true } : { allow: false, why: 'no rule covers it' })
      return verdict.allow ? { allow: true, by: 'a rule' } : verdict
    },
    stands: () => () => null,
    denies: (action) => denies?.(action) ?? null,
    askAhead: async (action, said) => {
      ahead.push({ action, said })
      return allow.includes(action.host) ? { allow: true, by: 'a rule' } : { allow: false, why: 'no rule covers it' }
    },
    routeOf: routesOf(rules),
    screen: (asked, request) => screenForge(asked, request, { ...terms, slowness }),
    slowness: () => slowness,
    crowd: all,
    credentials: fillBy(
      () => terms,
      (box) => box,
      (target) => routesOf(rules)(target).onlyOurs,
    ),
    dialler: dialler({
      machineAddresses: () => [],
      ...dial,
      resolve: async (host, signal) => {
        resolved.push(host)
        return dial?.resolve === undefined ? [publicAddress] : dial.resolve(host, signal)
      },
      connect(address, port) {
        dialled.push(`${address} ${port}`)
        if (dial?.connect !== undefined) return dial.connect(address, port)
        const place = address === publicAddress ? { host: '127.0.0.1', port: upstream } : { host: address, port }
        return pourable({ ...place, allowHalfOpen: true })
      },
    }),
    note: (event) => void events.push(event),
    log: (line) => void lines.push(line),
    now: Date.now,
    ...(askMs === undefined ? {} : { askMs }),
  })

  /** Sends bytes, and gives all that comes back until the window ends it. */
  async function raw(bytes: string | Buffer): Promise<string> {
    const socket = createConnection({ path: socketPath, allowHalfOpen: true })
    socket.on('error', () => {})
    socket.write(bytes)
    const [said] = await Promise.all([text(socket).catch(() => ''), once(socket, 'end').catch(() => {})])
    socket.destroy()
    return said
  }

  async function connect(authority: string, headers: Record<string, string> = {}) {
    const asking = request({
      socketPath,
      method: 'CONNECT',
      path: authority,
      headers: { host: authority, ...headers },
      agent: false,
    })
    asking.end()
    const [response, socket] = (await once(asking, 'connect')) as [IncomingMessage, Socket, Buffer]
    socket.on('error', () => {})
    return { status: response.statusCode ?? 0, headers: response.headers, socket }
  }

  return {
    folder,
    socketPath,
    certificate: await ca.certificate(),
    window,
    events,
    lines,
    judged,
    ahead,
    resolved,
    dialled,
    raw,
    connect,
    /** A CONNECT that is refused, with what its answer says. */
    async refused(authority: string) {
      const said = await raw(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`)
      return { status: Number(said.split(' ')[1]), said, body: JSON.parse(said.slice(said.indexOf('\r\n\r\n') + 4)) as unknown }
    },
    async tls(authority: string, servername?: string, more: ConnectionOptions = {}): Promise<TLSSocket> {
      const { socket } = await connect(authority)
      const name = servername ?? authority.replace(/:\d+$/, '')
      const secure = connectTls({ socket, servername: name, rejectUnauthorized: false, ...more })
      await once(secure, 'secureConnect')
      return secure
    },
    /** A request in absolute form. */
    async get(
      url: string,
      { method = 'GET', headers = {}, body = '' }: { method?: string; headers?: Record<string, string>; body?: string } = {},
    ) {
      const asking = request({ socketPath, method, path: url, headers: { host: new URL(url).host, ...headers }, agent: false })
      asking.end(body)
      const [response] = (await once(asking, 'response')) as [IncomingMessage]
      return { status: response.statusCode ?? 0, headers: response.headers, body: await text(response) }
    },
    /** A call of the window's own. */
    async own(path: string, body: unknown): Promise<{ readonly status: number; readonly body: unknown }> {
      const asking = request({ socketPath, method: 'POST', path, headers: { host: 'window' }, agent: false })
      asking.end(typeof body === 'string' ? body : JSON.stringify(body))
      const [response] = (await once(asking, 'response')) as [IncomingMessage]
      return { status: response.statusCode ?? 0, body: JSON.parse(await text(response)) as unknown }
    },
    net: (): EventBody<'net'>[] => {
      window.flush()
      return events.flatMap((event) => (event.type === 'net' ? [event.body] : []))
    },
    async [Symbol.asyncDispose]() {
      await window.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Listens on loopback, and counts who comes. */
export async function listener(server: Server) {
  let connections = 0
  const open = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    connections++
    open.add(socket)
    socket.on('error', () => {}).once('close', () => open.delete(socket))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  return {
    port: typeof address === 'object' && address !== null ? address.port : 0,
    get connections() {
      return connections
    },
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** A place that must never be reached. */
export const trap = () => listener(createServer((socket) => void socket.end('reached')))

/** What Node's own client sends first. */
export async function helloOf(servername: string, more: ConnectionOptions = {}): Promise<Buffer> {
  const server = createServer()
  await using at = await listener(server)
  const client = connectTls({ host: '127.0.0.1', port: at.port, servername, rejectUnauthorized: false, ...more })
  client.on('error', () => {})
  const [socket] = (await once(server, 'connection')) as [Socket]
  const [bytes] = (await once(socket, 'data')) as [Buffer]
  client.destroy()
  return bytes
}
/** A certificate of nobody's for these names. */
export function selfSigned(...names: readonly string[]): { readonly key: string; readonly cert: string } {
  const folder = mkdtempSync(join(tmpdir(), 'ah-cert-'))
  const [key, cert] = [join(folder, 'key'), join(folder, 'cert')]
  const san = names.map((name) => `${/^[\d.]+$/.test(name) ? 'IP' : 'DNS'}:${name}`).join(',')
  try {
    execFileSync(
      'openssl',
      [
        ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'],
        ...['-subj', '/CN=test', '-addext', `subjectAltName=${san}`, '-keyout', key, '-out', cert],
      ],
      { stdio: 'ignore' },
    )
    return { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
