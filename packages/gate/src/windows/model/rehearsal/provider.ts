import { once } from 'node:events'
import { chmod, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { setTimeout as pass } from 'node:timers/promises'
import { bodyOf, malformed, tooLarge, unknownPath } from '../answers.ts'
import { bodyBytesMax, readBody } from '../body.ts'
import { reply } from './brain.ts'
import { ApiRequest } from './conversation.ts'
import { messageOf, type Piece, streamOf, tokensIn } from './stream.ts'

/** A provider that needs no account: it speaks the Messages API on a socket of the gate's own, and is dialled like any other. */
export async function rehearsalProvider(path: string): Promise<{ readonly path: string; close(): Promise<void> }> {
  const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
    answer(request, response).catch(() => response.destroy())
  })
  await rm(path, { force: true })
  server.listen(path)
  await once(server, 'listening')
  await chmod(path, 0o600)
  return {
    path,
    async close() {
      const closed = new Promise<void>((done) => server.close(() => done()))
      server.closeAllConnections()
      await closed
      await rm(path, { force: true })
    },
  }
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const raw = await readBody(request, () => true)
  request.resume()
  if (raw === 'gone') return
  if (typeof raw === 'string') return send(response, 413, bodyOf(tooLarge(`The request is larger than ${bodyBytesMax} bytes`)))
  const path = (request.url ?? '').split('?')[0]
  if (request.method !== 'POST' || (path !== '/v1/messages' && path !== '/v1/messages/count_tokens')) {
    return send(response, 404, bodyOf(unknownPath('The rehearsal provider has no such endpoint')))
  }
  const parsed = parse(raw)
  if (!parsed.success) return send(response, 400, bodyOf(malformed(parsed.why)))
  const { data } = parsed
  if (path === '/v1/messages/count_tokens') {
    return send(
      response,
      200,
      JSON.stringify({ input_tokens: tokensIn(JSON.stringify([data.messages, data.system, data.tools])) }),
    )
  }
  const next = reply(data)
  if (next.kind === 'error') {
    const type = next.status >= 500 ? 'api_error' : 'invalid_request_error'
    return send(response, next.status, JSON.stringify({ type: 'error', error: { type, message: next.message } }))
  }
  const pieces = streamOf(data, next.moves)
  if (data.stream === true) return stream(response, pieces)
  const all = [...pieces]
  const waitMs = all.reduce((sum, piece) => sum + (piece.at === 'wait' ? piece.ms : 0), 0)
  if (!(await passed(waitMs, response))) return
  if (all.some(({ at }) => at === 'cut')) return void response.destroy()
  send(response, 200, JSON.stringify(messageOf(all)))
}

async function stream(response: ServerResponse, pieces: Iterable<Piece>): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' })
  for (const piece of pieces) {
    if (response.destroyed) return
    // What was written before goes out first.
    if (piece.at === 'cut') return response.socket?.destroySoon()
    if (piece.at === 'wait') {
      if (!(await passed(piece.ms, response))) return
    } else if (!response.write(`event: ${piece.event.type}\ndata: ${JSON.stringify(piece.event)}\n\n`)) {
      const gone = new AbortController()
      response.once('close', () => gone.abort())
      await once(response, 'drain', { signal: gone.signal })
    }
  }
  response.end()
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

function parse(raw: Buffer): { success: true; data: ApiRequest } | { success: false; why: string } {
  try {
    const parsed = ApiRequest.safeParse(JSON.parse(raw.toString('utf8')))
    if (parsed.success) return parsed
    const [issue] = parsed.error.issues
    return { success: false, why: `${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'unknown'}` }
  } catch {
    return { success: false, why: 'The request is not valid JSON' }
  }
}

function send(response: ServerResponse, status: number, json: string): void {
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(json) }).end(json)
}
