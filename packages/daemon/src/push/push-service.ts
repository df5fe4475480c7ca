import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import type { RequestDetails } from 'web-push'
import { z } from 'zod'
import { guardedLookup, isOwn, pushEndpoint } from './endpoint.ts'

/** Where a message goes: what a browser gave out. */
export type PushTarget = { readonly endpoint: string; readonly p256dh: string; readonly auth: string }

/** `gone`: there is no such subscription any more, and never will be again. */
export type Sent = 'sent' | 'gone' | 'failed'

/** Sends messages to browsers by way of their push services, which can read none of them. */
export interface PushService {
  /** Loads the code that it needs, which a start does not wait for and an update may take away. */
  load(): Promise<void>
  /** What browsers subscribe with; made at first use. */
  key(): Promise<string>
  /** Refuses an address that nothing is ever sent to. */
  check(endpoint: string): URL
  send(target: PushTarget, message: string, topic: string): Promise<Sent>
}

export type PushServiceOptions = {
  /** Where the pair of keys is kept. */
  readonly keyFile: string
  /** Whom push services can turn to. */
  readonly subject: string
  /** Services of the owner's own network, as host:port. */
  readonly ownHosts: ReadonlySet<string>
  readonly log: (message: string) => void
}

const Keys = z.object({ publicKey: z.string(), privateKey: z.string() })
const sendMs = 10_000
const library = async () => (await import('web-push')).default
/** A request can wait; what nobody got within a day is in the inbox anyway. */
const keptSeconds = 24 * 60 * 60

export function pushService({ keyFile, subject, ownHosts, log }: PushServiceOptions): PushService {
  let known: Promise<z.infer<typeof Keys>> | null = null
  const keys = () =>
    (known ??= read().catch((error: unknown) => {
      known = null
      throw error
    }))
  async function read(): Promise<z.infer<typeof Keys>> {
    if (existsSync(keyFile)) return Keys.parse(JSON.parse(readFileSync(keyFile, 'utf8')))
    const made = (await library()).generateVAPIDKeys()
    // For its owner alone: who has it can speak in this house's name to its devices' services. It is whole or not there.
    writeFileSync(`${keyFile}.new`, JSON.stringify(made), { mode: 0o600 })
    renameSync(`${keyFile}.new`, keyFile)
    return made
  }
  const check = (endpoint: string) => pushEndpoint(endpoint, ownHosts)

  return {
    async load() {
      await library()
    },
    key: async () => (await keys()).publicKey,
    check,
    async send({ endpoint, p256dh, auth }, message, topic) {
      try {
        const url = check(endpoint)
        const webPush = await library()
        const { method, headers, body } = webPush.generateRequestDetails({ endpoint, keys: { p256dh, auth } }, message, {
          vapidDetails: { subject, ...(await keys()) },
          TTL: keptSeconds,
          urgency: 'high',
          topic,
          contentEncoding: 'aes128gcm',
        })
        const status = await post(url, { method, headers, body })
        if (status === 404 || status === 410) return 'gone'
        if (status >= 200 && status < 300) return 'sent'
        log(`push: ${url.host} answered ${status}`)
      } catch (error) {
        log(`push: ${error instanceof Error ? error.message : String(error)}`)
      }
      return 'failed'
    },
  }

  /** Redirections are not followed: nobody has looked at where they lead. */
  function post(url: URL, { method, headers, body }: Pick<RequestDetails, 'method' | 'headers' | 'body'>): Promise<number> {
    const { promise, resolve, reject } = Promise.withResolvers<number>()
    const sending = request(url, {
      method,
      headers,
      agent: false,
      signal: AbortSignal.timeout(sendMs),
      ...(isOwn(url, ownHosts) ? {} : { lookup: guardedLookup }),
    })
    sending.once('error', reject)
    sending.once('response', (response) => {
      response.resume()
      response.once('error', () => {})
      resolve(response.statusCode ?? 0)
    })
    sending.end(body)
    return promise
  }
}
