import { watchPath } from '@anchorhold/protocol/link'
import { once } from 'node:events'
import { chmod, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { setTimeout as pass } from 'node:timers/promises'
import type { Answer, Dialect } from './dialect.ts'
import { lane } from './lane.ts'
import { messages } from './messages/messages.ts'

const dialects: readonly Dialect[] = [messages]

/** As much as the model window lets through. */
const bodyBytesMax = 32 * 1024 * 1024
/** What an agent usually sends is much smaller than this. */
const smallBytesMax = 1024 * 1024
/** Small requests that are in memory at the same time. */
const smallHeldBytesMax = 64 * 1024 * 1024
/** A request comes from a gate on this machine, which has all of it. */
const bodyMs = 30_000
/** The model window gives each session 64 calls at once. */
const callsMax = 1024
const connectionsMax = 2 * callsMax
/** The gate closes what it does not need after five minutes. It must not find a connection closed that it is about to use. */
const keepAliveMs = 6 * 60 * 1000

export type Rehearsal = {
  readonly path: string
  close(): Promise<void>
}

/** A provider that needs no account. It speaks as a model's API does, on a socket in a folder that its callers alone may enter: whoever
 *  may enter the folder may use it. `onAlone` is called when nobody has been connected for this long. */
export async function rehearsal(
  path: string,
  alone: { readonly ms: number; readonly onAlone: () => void } | null = null,
): Promise<Rehearsal> {
  let calls = 0
  // A session that sends large requests, as many as it may, keeps the small ones of others from nothing: those have room of their own,
  // and of the large ones one is looked at after the other.
  const small = lane(smallHeldBytesMax)
  const large = lane(bodyBytesMax)

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (request.url ?? '').split('?', 1)[0]!
    // Never answered to its end: whoever waits here hears at once when this process is gone.
    if (request.method === 'GET' && path === watchPath) return response.writeHead(200).flushHeaders()
    const dialect = dialects.find((one) => one.serves(path))
    if (request.method !== 'POST' || dialect === undefined) {
      const nowhere = messages.refusal(404, 'The rehearsal provider has no such endpoint')
      return refuse(request, response, nowhere)
    }
    const bytes = Number(request.headers['content-length'] ?? Number.NaN)
    if (!Number.isSafeInteger(bytes)) return refuse(request, response, dialect.refusal(411, 'The request has no content-length'))
    if (bytes > bodyBytesMax)
      return refuse(request, response, dialect.refusal(413, `The request is larger than ${bodyBytesMax} bytes`))
    if (calls >= callsMax)
      return refuse(request, response, dialect.refusal(529, `The rehearsal has ${callsMax} calls under way: try again`))
    calls += 1
    response.once('close', () => (calls -= 1))
    const isSmall = bytes <= smallBytesMax
    const said = await (isSmall ? small : large)(isSmall ? bytes : bodyBytesMax, async () => {
      const body = await readBody(request, response)
      return body === null ? null : answerOf(dialect, path, body)
    })
    if (said !== null) await send(response, said)
  }

  const server = createServer(
    // How long a request may take counts from its turn on; see `readBody`.
    { keepAliveTimeout: keepAliveMs, requestTimeout: 0 },
    (request, response) => void answer(request, response).catch(() => response.destroy()),
  )
  server.maxConnections = connectionsMax

  if (alone !== null) {
    let connected = 0
    const end = () => setTimeout(() => (connected === 0 ? alone.onAlone() : undefined), alone.ms).unref()
    server.on('connection', (socket) => {
      connected += 1
      socket.once('close', () => {
        connected -= 1
        if (connected === 0) end()
      })
    })
    server.once('listening', end)
  }
  await rm(path, { force: true })
  server.listen(path)
  await once(server, 'listening')
  await chmod(path, 0o666)
  return {
    path,
    async close() {
      // Takes the socket away at once, so that whoever comes now starts another.
      const closed = new Promise<void>((done) => server.close(() => done()))
      server.closeAllConnections()
      await closed
    },
  }
}

/** An answer, or words of its own where there is none: what is nested too deep to be written again, for example. */
function answerOf(dialect: Dialect, path: string, body: Buffer): Answer {
  try {
    return dialect.answer(path, body)
  } catch (error) {
    return dialect.refusal(400, `The rehearsal cannot read this request: ${error instanceof Error ? error.name : 'unknown'}`)
  }
}

/** Null when the other side left, or took too long, before it was all there. */
function readBody(request: IncomingMessage, response: ServerResponse): Promise<Buffer | null> {
  const { promise, resolve } = Promise.withResolvers<Buffer | null>()
  const chunks: Buffer[] = []
  const late = setTimeout(() => response.destroy(), bodyMs)
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.once('end', () => resolve(Buffer.concat(chunks)))
  request.once('error', () => resolve(null))
  request.once('close', () => resolve(null))
  if (response.destroyed) resolve(null)
  return promise.finally(() => clearTimeout(late))
}

async function refuse(request: IncomingMessage, response: ServerResponse, answer: Answer): Promise<void> {
  request.resume()
  await send(response, answer)
}

async function send(response: ServerResponse, { status, contentType, pieces }: Answer): Promise<void> {
  if (response.destroyed) return
  // Whoever does not get the whole of it in a stream gets nothing before its end.
  const isStream = contentType.startsWith('text/event-stream')
  const begin = () => response.writeHead(status, { 'content-type': contentType, 'cache-control': 'no-cache' })
  if (isStream) begin()
  for (const piece of pieces) {
    if (response.destroyed) return
    switch (piece.at) {
      case 'cut':
        // What was written before goes out first.
        return response.socket?.destroySoon()
      case 'wait':
        if (!(await passed(piece.ms, response))) return
        break
      case 'text':
        if (!response.headersSent) begin()
        if (!response.write(piece.text)) await drained(response)
    }
  }
  response.end()
}

async function drained(response: ServerResponse): Promise<void> {
  const gone = new AbortController()
  const leave = () => gone.abort()
  response.once('close', leave)
  try {
    await once(response, 'drain', { signal: gone.signal })
  } catch {
    // The next piece finds nobody.
  } finally {
    response.off('close', leave)
  }
}

/** Lets the time pass; false when the other side left meanwhile. */
async function passed(ms: number, response: ServerResponse): Promise<boolean> {
  if (ms === 0) return !response.destroyed
  const gone = new AbortController()
  const leave = () => gone.abort()
  response.once('close', leave)
  try {
    await pass(ms, undefined, { signal: gone.signal })
    return true
  } catch {
    return false
  } finally {
    response.off('close', leave)
  }
}
