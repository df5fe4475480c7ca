import { once } from 'node:events'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { EventBody, NewEvent } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { Authority } from '@anchorhold/protocol/authority'
import type { GateCommand } from '@anchorhold/protocol/gate-commands'
import type { Provider } from '@anchorhold/protocol/providers'
import { defaultPolicy } from '@anchorhold/core/policy/default-policy'
import { memoryDisk } from '@anchorhold/link/memory-disk'
import { openOutbox, type Outbox } from '@anchorhold/link/outbox'
import { rehearsal as startRehearsal } from '@anchorhold/rehearsal/server'
import { type Gate, gate, type GateParts } from './gate.ts'
import type { CallLine } from './windows/call-line.ts'

export const session = 'ses_0000000000000001' as SessionId
export const realKey = 'sk-ant-the-real-key-of-the-owner'
export const rehearsal: Provider = {
  name: 'rehearsal',
  kind: 'rehearsal',
  base_url: null,
  credential: { from: 'none' },
  auth: 'none',
}
export const local = (url: string, more: Partial<Provider> = {}): Provider => ({
  name: 'test',
  kind: 'local',
  base_url: url,
  credential: { from: 'env', name: 'TEST_KEY' },
  auth: 'api_key',
  ...more,
})

/** Nothing is said about what leaves the cell. */
export const plainAuthority: Authority = { policy: defaultPolicy, grants: [], asked: [] }

export type Answered = { readonly status: number; readonly headers: IncomingHttpHeaders; readonly body: string }

/** A gate in a folder of its own with one session's window open, and a client to that window, for tests. */
export async function testGate(
  open: Partial<Extract<GateCommand, { do: 'open' }>> & { readonly provider: Provider },
  disk = memoryDisk(),
  { env: given = {}, ...more }: Pick<GateParts, 'heldMs' | 'dial' | 'alone'> & { readonly env?: GateParts['env'] } = {},
) {
  const root = await mkdtemp(join(tmpdir(), 'ah-gate-'))
  const folder = join(root, 'w')
  await mkdir(folder)
  const outbox = await openOutbox({ disk, now: Date.now })
  const events: NewEvent[] = []
  const watched: Outbox = {
    ...outbox,
    get last() {
      return outbox.last
    },
    get written() {
      return outbox.written
    },
    append(of, entry) {
      const n = outbox.append(of, entry)
      if (entry.type !== 'reservation') events.push(entry)
      return n
    },
  }
  const lines: CallLine[] = []
  const env: Record<string, string | undefined> = { TEST_KEY: realKey, ...given }
  const rehearsalSocket = join(root, 'api.sock')
  let demo = open.provider.kind === 'rehearsal' ? await startRehearsal(rehearsalSocket) : null
  const made: Gate = await gate({
    ...{ folder: join(root, 'gate'), rehearsalSocket, outbox: watched, env, log: (line) => lines.push(line), ...more },
  })
  const command = {
    do: 'open' as const,
    session,
    folder,
    dialect: 'messages',
    budget_nanos: null,
    spent_nanos: 0,
    spent_to: 0,
    closed: false,
    paused: false,
    spend: 'stop' as const,
    network: 'none' as const,
    net: { ca: null, mirrors: {}, forges: {}, credentials: [], model_hosts: [], slowness: 1 },
    rules: { allow: [] },
    ledger: { simulated: false, at: 0, to: 0, nodes: [] },
    agent_cap_nanos: null,
    certificate: true,
    authority: plainAuthority,
    ...open,
  }
  await made.handle(command)
  const socketPath = join(folder, 'model.sock')

  const start = (path: string, body: string | Buffer, headers: Record<string, string> = {}, method = 'POST'): ClientRequest => {
    const one = request({
      socketPath,
      method,
      path,
      headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body), ...headers },
      agent: false,
    })
    one.end(body)
    return one
  }
  return {
    root,
    folder,
    socketPath,
    /** The demo model goes, and comes again. */
    endRehearsal: async () => demo?.close(),
    startRehearsal: async () => void (demo = await startRehearsal(rehearsalSocket)),
    events,
    lines,
    env,
    gate: made,
    opened: command,
    start,
    async call(path: string, body: unknown, headers: Record<string, string> = {}, method = 'POST'): Promise<Answered> {
      const one = start(path, typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body), headers, method)
      const [response] = (await once(one, 'response')) as [IncomingMessage]
      return { status: response.statusCode ?? 0, headers: response.headers, body: await textOf(response) }
    },
    usage: (): EventBody<'usage'>[] => events.flatMap((event) => (event.type === 'usage' ? [event.body] : [])),
    notices: (): string[] => events.flatMap((event) => (event.type === 'notice' ? [event.body.code] : [])),
    async [Symbol.asyncDispose]() {
      await made.close()
      await demo?.close()
      // What is kept for the next gate may still be on its way to the disk.
      await rm(root, { recursive: true, force: true, maxRetries: 5, retryDelay: 20 })
    },
  }
}

export async function textOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString('utf8')
}

/** The smallest request that the window lets out. */
export const small = (more: object = {}) => ({
  model: 'claude-sonnet-5',
  max_tokens: 1024,
  stream: true,
  messages: [{ role: 'user', content: 'hi' }],
  ...more,
})
