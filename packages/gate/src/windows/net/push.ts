import type { IncomingMessage, ServerResponse } from 'node:http'
import { constants, gunzipSync } from 'node:zlib'
import { isOwnPush, isPush } from '@anchorhold/core/net/forges'
import { refusedPush, refusedService } from '@anchorhold/core/net/push-report'
import { pushRefusal } from '@anchorhold/core/net/push-rules'
import { type Push, pushBytesMax, readPush } from '@anchorhold/core/net/receive-pack'
import type { Route } from '@anchorhold/core/net/routes'
import type { Target } from '@anchorhold/core/net/target'
import type { PushRule, SessionRepo } from '@anchorhold/protocol/forges'
import type { Asked } from './exchange.ts'
import { readAhead } from './read-ahead.ts'

/** How a push is answered that does not go on; null for what may. */
export type PushRefusal = { readonly why: string; readonly status: number; readonly type: string; readonly body: string }

/** What a session has at each forge. */
type Forges = Readonly<Record<string, SessionRepo | null>>

/** What requests to forges are held to. */
export type ForgeTerms = {
  readonly forges: Forges
  /** How many times longer the cell takes for everything. */
  readonly slowness: number
}

/** What goes to a forge is looked at, whatever rules say of it. */
export const looked =
  (routeOf: (target: Target) => Route, forges: () => Forges) =>
  (target: Target): Route => {
    const route = routeOf(target)
    return Object.hasOwn(forges(), target.host) ? { ...route, how: 'open' } : route
  }

/** The most that the beginning of a compressed push may grow to. */
const inflatedMax = 8 * 1024 * 1024
/** Of a push that is refused, so much is still taken, so that git hears why. */
const drainedMax = 512 * 1024 * 1024

/** Holds a request to what a session may push. `repos` are what it has at each forge; at a forge where it has none, nothing is pushed.
 *  Invariant: a push goes on only to the session's own repository, and only when every ref that it names may be pushed. What was read
 *  is what goes on: it is put back in front of the rest. */
export async function screenPush(
  { target, path }: Asked,
  request: IncomingMessage,
  { forges, slowness }: ForgeTerms,
): Promise<PushRefusal | null> {
  if (!Object.hasOwn(forges, target.host) || !isPush(path)) return null
  const mine = forges[target.host] ?? null
  const own = mine === null ? null : isOwnPush(mine, path)
  if (mine === null || own === null) {
    const why = mine === null ? 'This session has no repository there' : `This session pushes to ${mine.repo} only`
    return refuseAll(why)
  }
  if (own === 'asks') return request.method === 'GET' ? null : refuseAll('This is asked for with GET')
  if (request.method !== 'POST') return refuseAll('A push is a POST')
  const reading = await beginningOf(request, slowness)
  if (typeof reading === 'string') return { why: reading, status: 403, type: 'text/plain', body: `${reading}\n` }
  return judgePush(mine.push, reading)
}

/** What forges take as an order to merge, or to show a repository to everybody. Git names it only where some are sent. */
const hasOptions = ({ capabilities }: Push): boolean => capabilities.some((one) => one.startsWith('push-options'))
const noOptions = 'push options (git push -o) are not carried: they may change more than the refs'

/** Whether every ref may be pushed; if one may not, none is. */
function judgePush(rule: PushRule, push: Push): PushRefusal | null {
  const refusals = new Map(
    push.commands.flatMap((update) => {
      const why = hasOptions(push) ? noOptions : pushRefusal(rule, update)
      return why === null ? [] : [[update.ref, why] as const]
    }),
  )
  const [first] = refusals
  if (first === undefined) return null
  const why = `Cannot push "${first[0]}": ${first[1]}`
  const body = refusedPush(
    push,
    (ref) => refusals.get(ref) ?? 'another ref of this push is refused',
    `Blocked by Anchorhold: ${why}`,
  )
  if (body === null) return { why, status: 403, type: 'text/plain', body: `${why}\n` }
  return { why, status: 200, type: 'application/x-git-receive-pack-result', body }
}

/** Git shows this as the server's own words, whichever of its questions it is an answer to. */
const refuseAll = (why: string): PushRefusal => ({
  why,
  status: 200,
  type: 'application/x-git-receive-pack-advertisement',
  body: refusedService('git-receive-pack', `Blocked by Anchorhold: ${why}`),
})

/** Reads the list of refs that a push begins with, and puts back what was read; words when it cannot be. */
async function beginningOf(request: IncomingMessage, slowness: number): Promise<Push | string> {
  const coding = (request.headers['content-encoding'] ?? 'identity').toLowerCase()
  if (coding !== 'identity' && coding !== 'gzip') return 'Cannot read this push: it is encoded in a way that is not looked into'
  return readAhead<Push | string>(
    request,
    (taken) => {
      const plain = coding === 'gzip' ? inflated(taken) : taken
      const reading = plain === null ? { refused: 'it is not compressed as it says' } : readPush(plain.subarray(0, pushBytesMax))
      if ('more' in reading && taken.length <= pushBytesMax) return null
      if ('push' in reading) return reading.push
      return `Cannot read this push: ${'refused' in reading ? reading.refused : 'its list of refs is too long'}`
    },
    {
      cut: 'Cannot read this push: it ends within its list of refs',
      late: 'Cannot read this push: its list of refs does not come',
      slowness,
    },
  )
}

/** As much as can be told from a part; null for what is no gzip, or grows beyond all reason. */
function inflated(part: Buffer): Buffer | null {
  if (part.length < 18) return Buffer.alloc(0)
  try {
    return gunzipSync(part, { finishFlush: constants.Z_SYNC_FLUSH, maxOutputLength: inflatedMax })
  } catch {
    return null
  }
}

/** Answers a push that does not go on, after the rest of it: git does not listen before. */
export function answerRefused(request: IncomingMessage, response: ServerResponse, { status, type, body }: PushRefusal): void {
  let drained = 0
  const answer = () => {
    if (response.headersSent || response.destroyed) return
    response.writeHead(status, {
      'content-type': type,
      'content-length': Buffer.byteLength(body),
      'cache-control': 'no-cache',
      'x-anchorhold-blocked': 'push',
    })
    response.end(body)
  }
  request.on('data', (chunk: Buffer) => {
    drained += chunk.length
    if (drained > drainedMax) request.destroy()
  })
  request.once('end', answer)
  if (request.readableEnded || request.complete) setImmediate(answer)
  request.resume()
}
