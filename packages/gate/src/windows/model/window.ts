import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { Failure } from '@anchorhold/protocol/failures'
import { requestHeadersMax } from '@anchorhold/protocol/http-limits'
import { settlePath, type Settlement, watchPath } from '@anchorhold/protocol/link'
import type { CallLine } from '../call-line.ts'
import { listenAt, type Stands } from '../listen.ts'
import { answerIn, failed, malformed, overloaded, respond, tooLarge, unknownPath } from './answers.ts'
import { bodyBytesMax, readBody } from './body.ts'
import { type CallsParts, type ModelCalls, modelCalls } from './calls.ts'
import type { Answer, Endpoint } from './dialect.ts'

/** A session's window to its model. */
export type ModelWindow = Pick<ModelCalls, 'price' | 'retry' | 'update' | 'pause' | 'resume' | 'quiet'> & {
  readonly stands: Stands
  /** Ends every call at once, books what it cost, and takes the socket away. */
  close(): Promise<void>
}

export type WindowParts = CallsParts & {
  /** Who may enter the folder may use the window. */
  readonly folder: string
  readonly log: (line: CallLine) => void
  /** The turn is about to end: what belongs to it is written down now. */
  readonly settling?: () => void
  /** And is on the disk. */
  readonly settled?: () => void
}

/** What the kernel takes (unix(7)), on Linux and on macOS. */
const socketPathBytesMax = process.platform === 'darwin' ? 103 : 107
const connectionsMax = 256
const callsMax = 64
/** Bodies of one session that are in memory at the same time. */
const heldBytesMax = 4 * bodyBytesMax
const headerBytesMax = 64 * 1024
/** An agent keeps its connection between two calls for about as long as a tool runs. */
const keepAliveMs = 5 * 60 * 1000
const quietMs = 15 * 60 * 1000
/** Less than a keeper waits for the answer: what a call that outlives its turn has cost is told when it is known. */
const settleWaitMs = 2000

export async function modelWindow(parts: WindowParts): Promise<ModelWindow> {
  const { session, dialect, account, books, now } = parts
  const answer = (response: ServerResponse, what: Answer) => answerIn(dialect, response, what)
  const path = join(parts.folder, 'model.sock')
  if (Buffer.byteLength(path) > socketPathBytesMax) {
    throw new Failure(
      'gate_unavailable',
      `Cannot open a window at "${path}": the path of a socket may be ${socketPathBytesMax} bytes long`,
      {
        hint: 'Choose a shorter state folder',
      },
    )
  }
  const calls = modelCalls(parts)
  let heldBytes = 0
  let underWay = 0

  const server = createServer(
    { maxHeaderSize: headerBytesMax, keepAliveTimeout: keepAliveMs, requestTimeout: quietMs },
    (request, response) => {
      const startedAt = now()
      const { socket } = request
      const writtenBefore = socket.bytesWritten
      const [pathname, query] = target(request.url ?? '')
      // No agent asks before it has its answer: whoever does has many calls in the place of one.
      if (response.socket === null) return void socket.destroy()
      // It is on this machine, which has a clock.
      response.sendDate = false
      response.on('close', () => {
        request.resume()
        const bytes = socket.bytesWritten - writtenBefore
        const line = { session, method: request.method ?? '', path: shownPath(pathname), status: response.statusCode, bytes }
        parts.log({ ...line, ms: now() - startedAt })
      })
      if ((request.headersDistinct.host?.length ?? 0) > 1) {
        request.resume()
        return answer(response, malformed('The request names its host twice'))
      }
      if (request.method === 'HEAD') return void response.writeHead(200).end()
      const endpoint = request.method === 'POST' ? dialect.endpoint(pathname, query) : null
      if (endpoint !== null) return void answerCall(request, response, endpoint)
      if (request.method === 'POST' && pathname === settlePath)
        return void answerSettle(request, response).catch(() => response.destroy())
      // Never answered to its end: whoever waits here hears at once when the gate is gone.
      if (request.method === 'GET' && pathname === watchPath) return response.writeHead(200).flushHeaders()
      request.resume()
      answer(response, unknownPath(`This window serves ${dialect.serves} only`))
    },
  )
  server.maxConnections = connectionsMax
  server.maxHeadersCount = requestHeadersMax
  server.timeout = quietMs

  async function answerCall(request: IncomingMessage, response: ServerResponse, endpoint: Endpoint) {
    let admitted = 0
    underWay += 1
    try {
      if (underWay > callsMax) {
        request.resume()
        return answer(response, overloaded(`This session has ${callsMax} model calls under way: try again when one has ended`))
      }
      const raw = await readBody(request, (bytes) => {
        if (heldBytes + bytes > heldBytesMax) return false
        heldBytes += bytes
        admitted += bytes
        return true
      })
      if (raw === 'gone') return
      if (raw === 'too_large') {
        return answer(response, tooLarge(`The request is larger than ${bodyBytesMax / 1024 / 1024} MiB`))
      }
      if (raw === 'crowded')
        return answer(response, overloaded('This session sends too much at once: try again when a call has ended'))
      await calls.make(raw, request, response, endpoint)
    } catch {
      // A bug. Its words stay here.
      if (response.headersSent) response.destroy()
      else answer(response, failed('The model window failed'))
    } finally {
      heldBytes -= admitted
      underWay -= 1
    }
  }

  async function answerSettle(request: IncomingMessage, response: ServerResponse) {
    request.resume()
    await Promise.race([calls.quiet(), wait(settleWaitMs, undefined, { ref: false })])
    parts.settling?.()
    // The turn's end waits for these records, so they go to the disk now.
    await books.flush().catch(() => {})
    parts.settled?.()
    const settlement: Settlement = { source: 'gate', n: account.last, refused: calls.takeRefusal() }
    respond(response, 200, JSON.stringify(settlement))
  }

  const stands = await listenAt(server, path)

  return {
    stands,
    price: calls.price,
    retry: calls.retry,
    update: calls.update,
    pause: calls.pause,
    resume: calls.resume,
    quiet: calls.quiet,
    async close() {
      calls.abort()
      const closed = new Promise<void>((done) => server.close(() => done()))
      server.closeAllConnections()
      await closed
      await calls.quiet()
    },
  }
}

function target(url: string): readonly [pathname: string, query: string] {
  const mark = url.indexOf('?')
  return mark === -1 ? [url, ''] : [url.slice(0, mark), url.slice(mark + 1)]
}

const shownPath = (pathname: string) => pathname.replaceAll(/[^\w/.-]/g, '?').slice(0, 60)
