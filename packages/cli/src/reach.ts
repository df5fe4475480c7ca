import { Problem } from '@anchorhold/protocol/api/route'
import { Reached } from '@anchorhold/protocol/api/daemon'
import { apiRoot } from '@anchorhold/protocol/api/addresses'
import { randomBytes } from 'node:crypto'
import { lookup } from 'node:dns/promises'
import { request as plainRequest } from 'node:http'
import { request as tlsRequest } from 'node:https'
import type { Daemon } from './daemon.ts'

/** What was found out about the way from outside to the daemon. */
export type Finding = { readonly ok: boolean; readonly what: string; readonly remedy?: string }

const answerMs = 10_000
const firstBytesMs = 5000

/** Asks for the daemon through its public URL, as a browser would: its name, its certificate, who answers, streams and sockets. Ends
 *  with the first thing that keeps the others from being tried. No token goes out: whoever answers may be somebody else. */
export async function checkReach(
  { api, url: local }: Daemon,
  publicUrl: string,
  configPath: string,
): Promise<readonly Finding[]> {
  const { hostname, origin } = new URL(publicUrl)
  const good = (what: string): Finding => ({ ok: true, what })
  const bad = (what: string, remedy: string): Finding => ({ ok: false, what, remedy })
  try {
    await lookup(hostname.replace(/^\[|\]$/g, ''))
  } catch {
    return [bad(`DNS: "${hostname}" has no address`, 'Make a DNS record for it, or wait until a new one is known everywhere')]
  }
  const { nonce } = await api.openReach()
  const path = `${origin}${apiRoot}/reach/${nonce}`
  let response: Response
  let text: string
  try {
    response = await fetch(path, { redirect: 'manual', signal: AbortSignal.timeout(answerMs) })
    text = await response.text()
  } catch (error) {
    return [unreachable(error, publicUrl, bad)]
  }
  const stranger = notOurs(response, text, nonce, { local, hostname }, bad)
  if (stranger !== null) return [good(`"${hostname}" has an address, and something answers there`), stranger]
  const { address, doubted } = Reached.parse(JSON.parse(text))
  return [
    good('This daemon answers under its public URL'),
    (await streams(path))
      ? good('Streams come through as they are written')
      : bad('Streams are held back: the app would stand still', 'Switch buffering off in the proxy for this host'),
    (await sockets(origin))
      ? good('WebSockets come through')
      : bad('WebSockets do not come through: terminals would not open', 'Have the proxy pass Upgrade and Connection on'),
    doubted
      ? bad(
          `Every device looks as if it were ${address}: failed logins are counted together`,
          `Set trusted_proxies: 1 in ${configPath}`,
        )
      : good(`Devices are told apart: this one comes from ${address ?? 'nowhere'}`),
  ]
}

type Bad = (what: string, remedy: string) => Finding

function unreachable(error: unknown, url: string, bad: Bad): Finding {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  if (/CERT|SIGNED|ISSUER|ALTNAME|TLS|SSL|EPROTO|VERIFY/.test(code))
    return bad(
      `TLS: the certificate of ${url} is not one that this machine trusts (${code})`,
      'Let the proxy get one for this very name; for an authority of your own set NODE_EXTRA_CA_CERTS',
    )
  if (code === 'ECONNREFUSED')
    return bad(`Nothing listens at ${url}`, 'Start the proxy or the tunnel; anchorhold expose shows how')
  if (error instanceof Error && error.name === 'TimeoutError')
    return bad(
      `${url} does not answer within ${answerMs / 1000} s`,
      'See whether a firewall stands between, or the tunnel is down',
    )
  return bad(
    `${url} cannot be reached (${code || (error instanceof Error ? error.message : String(error))})`,
    'Start the proxy or the tunnel; anchorhold expose shows how',
  )
}

/** Why whoever answered is not this daemon; null when it is. */
function notOurs(
  { status, headers }: Response,
  text: string,
  nonce: string,
  { local, hostname }: { readonly local: string; readonly hostname: string },
  bad: Bad,
): Finding | null {
  const body = parsed(text)
  const found = Reached.safeParse(body)
  if (found.success && found.data.nonce === nonce) return null
  if (status >= 300 && status < 400)
    return bad(
      `Wrong service: it sends to ${headers.get('location') ?? 'elsewhere'}`,
      'Take the login page or the other site in front of it away from this host',
    )
  const problem = Problem.safeParse(body)
  if (problem.success && problem.data.error.code === 'foreign_host')
    return bad(
      'The proxy changes the Host header, so the daemon refuses',
      `Have it pass "${hostname}" on as it came, or restart with this very --public-url`,
    )
  if (problem.success) return bad('Wrong service: another Anchorhold answers', `Point the proxy to ${local}`)
  if (status >= 502 && status <= 504)
    return bad(`The proxy answers ${status}: it does not reach the daemon`, `Point it to ${local}`)
  return bad(`Wrong service: something else answers (${status})`, `Point the proxy to ${local}`)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** The stream stays open after its first message, so a proxy that waits for its end never passes that on. */
async function streams(path: string): Promise<boolean> {
  const end = new AbortController()
  const timer = setTimeout(() => end.abort(), firstBytesMs)
  try {
    const { body } = await fetch(path, { headers: { accept: 'text/event-stream' }, signal: end.signal })
    return (await body!.getReader().read()).value !== undefined
  } catch {
    return false
  } finally {
    clearTimeout(timer)
    end.abort()
  }
}

/** Without a cookie a terminal is refused by whoever takes upgrades; a request that has lost its upgrade finds nothing there. */
function sockets(origin: string): Promise<boolean> {
  const request = origin.startsWith('https:') ? tlsRequest : plainRequest
  return new Promise((resolve) => {
    const asked = request(`${origin}${apiRoot}/sessions/ses_0000000000000000/terminal?cols=80&rows=24`, {
      agent: false,
      timeout: answerMs,
      headers: {
        connection: 'Upgrade',
        upgrade: 'websocket',
        'sec-websocket-version': '13',
        'sec-websocket-key': randomBytes(16).toString('base64'),
      },
    })
    asked.once('response', (response) => {
      resolve(response.statusCode === 401)
      response.destroy()
    })
    asked.once('upgrade', (_, socket) => {
      resolve(true)
      socket.destroy()
    })
    asked.once('timeout', () => asked.destroy())
    asked.once('error', () => resolve(false))
    asked.end()
  })
}
