import type { Socket } from 'node:net'
import type { Patience } from '@anchorhold/core/authority/authority'
import type { Route } from '@anchorhold/core/net/routes'
import type { Target } from '@anchorhold/core/net/target'
import type { NetAction } from '@anchorhold/protocol/actions'
import type { Fill, NotFilled } from './credentials.ts'
import type { Crowd } from './crowd.ts'
import type { Dialled, Dialler } from './dial.ts'
import type { FetchParts } from './fetch.ts'
import type { ConnectionFailure, Place } from './kept-connections.ts'
import type { Refusal, Wanted } from './refusals.ts'
import { type Let, type Standing, standing } from './standing.ts'
import type { Traffic } from './traffic.ts'

export type Judged = { readonly allow: true; readonly by: string } | { readonly allow: false; readonly why: string }

export type WaysParts = {
  /** Whether that may happen; waits for a person where the policy says so. */
  readonly judge: (action: NetAction, patience: Patience) => Promise<Judged>
  /** By what is in force now: why what was let out, and what allowed it then, may not go on; null when it may. Nobody is asked. */
  readonly stands: () => (action: NetAction, by: string) => string | null
  /** How a target is reached that may be. */
  readonly routeOf: (target: Target) => Route
  readonly dialler: Dialler
  /** What puts secrets into calls that they are for. */
  readonly credentials: Fill
  /** All connections of all windows. */
  readonly crowd: Crowd
  /** How long a connection waits for a person. */
  readonly askMs?: number
}

/** A thing that is wanted of a place which was read in one way. */
export type Known = Wanted & { readonly target: Target }
/** How whoever called is told that they do not get it. */
export type Refuse = (refusal: Refusal) => void
export type Destroyable = { destroy(): unknown }
/** Who makes a call: that they have gone, and what to end where they must. */
export type Caller = { readonly gone: AbortSignal; readonly ends: Destroyable[] }

/** The ways that lead out of one window. Invariant: nothing is looked up or dialled for a target before it was judged. */
export type Ways = Pick<Standing, 'look'> & {
  /** Whether what goes to a place is looked into, where it comes over TLS. */
  isOpenedTo(target: Target): boolean
  /** Judges what is wanted; null when that was refused, and said so. What is let out stands only as long as it would be again. */
  allow(wanted: Known, caller: Caller, differs: Let['differs'], refuseWith: Refuse): Promise<Place | null>
  /** Dials a place that may be reached. */
  reach(place: Place, gone: AbortSignal): Promise<Dialled>
  /** The words for a place that could not be reached. */
  failing(wanted: Known, gone: AbortSignal, refuseWith: Refuse): (why: ConnectionFailure) => void
  /** Judges what is wanted and dials it; null when that was refused, and said so. */
  lead(wanted: Known, gone: AbortSignal, refuseWith: Refuse, ends?: Destroyable[]): Promise<Socket | null>
  /** The same for a page that is read for the agent: no secret is put into what asks for it, and what a cell may not send is not sent here. */
  readonly leadToPage: FetchParts['lead']
  /** Refuses what can be read in more than one way, or in none. */
  misnamed(why: string, wanted: Wanted, refuseWith: Refuse): void
  /** Ends every connection to the outside. */
  close(): void
}

const askMsUsual = 30_000
/** A connection that carries nothing for so long is given up. */
const idleMs = 30 * 60 * 1000

export function waysOut(parts: WaysParts, passed: Traffic): Ways {
  const { judge, routeOf, dialler, askMs = askMsUsual } = parts
  const upstreams = new Set<Socket>()
  const held = standing(
    () => {
      const stands = parts.stands()
      return ({ wanted, by, differs }) => {
        const { ownNetwork } = routeOf(wanted.target)
        return dialler.refuses(wanted.target, { ownNetwork }) ?? stands(actionOf(wanted), by) ?? differs()
      }
    },
    ({ wanted }, why) => passed.blocked(wanted.target, inWords(wanted, `It was cut, because rules have changed. ${why}`)),
  )
  const isOpenedTo = (target: Target) => parts.credentials.speaksOf(target) || routeOf(target).how === 'open'

  async function allow(
    wanted: Known,
    { gone, ends }: Caller,
    differs: Let['differs'],
    refuseWith: Refuse,
  ): Promise<Place | null> {
    const { target } = wanted
    const block = (why: string) => {
      passed.blocked(target, inWords(wanted, why))
      refuseWith({ status: 403, wanted, why })
      return null
    }
    const { ownNetwork } = routeOf(target)
    // Nobody is asked for what would not happen anyway.
    const never = dialler.refuses(target, { ownNetwork })
    if (never !== null) return block(never)
    let late = null as AbortSignal | null
    const patience = () => AbortSignal.any([gone, (late ??= AbortSignal.timeout(askMs))])
    const { looked } = held
    const verdict = await judge(actionOf(wanted), patience)
    if (gone.aborted) return null
    if (verdict.allow) {
      held.hold({ wanted, by: verdict.by, gone, differs, ends }, looked)
      return { target, ownNetwork }
    }
    return block(
      late?.aborted === true
        ? `A person was asked, and has not answered within ${askMs / 1000} s: try again when they have`
        : verdict.why,
    )
  }

  async function reach({ target, ownNetwork }: Place, gone: AbortSignal): Promise<Dialled> {
    const leave = parts.crowd.enter()
    if (leave === null) return { failed: 'The gate holds as many connections as it may: try again later' }
    const dialled = await dialler.dial(target, { ownNetwork }, gone)
    if (!('socket' in dialled)) {
      leave()
      return dialled
    }
    const { socket } = dialled
    socket.once('close', leave)
    socket.on('error', () => {})
    if (gone.aborted) {
      socket.destroy()
      return { failed: 'Nobody waits for it any more' }
    }
    socket.setTimeout(idleMs, () => socket.destroy())
    upstreams.add(socket)
    socket.once('close', () => upstreams.delete(socket))
    passed.follow(target, socket)
    return dialled
  }

  function failing(wanted: Known, gone: AbortSignal, refuseWith: Refuse): (why: ConnectionFailure) => void {
    return (why) => {
      if (gone.aborted) return
      if ('failed' in why) return refuseWith({ status: 502, wanted, why: why.failed })
      passed.blocked(wanted.target, inWords(wanted, why.blocked))
      const { instead } = why
      refuseWith({ status: 403, wanted, why: why.blocked, ...(instead === undefined ? {} : { instead }) })
    }
  }

  async function lead(wanted: Known, gone: AbortSignal, refuseWith: Refuse, ends: Destroyable[] = []) {
    const isUnread = wanted.method === null
    const differs = () => (isUnread && isOpenedTo(wanted.target) ? 'What goes there is looked into' : null)
    const place = await allow(wanted, { gone, ends }, differs, refuseWith)
    if (place === null) return null
    const reached = await reach(place, gone)
    if ('socket' in reached) {
      ends.push(reached.socket)
      passed.called(place.target)
      return reached.socket
    }
    failing(wanted, gone, refuseWith)(reached)
    return null
  }

  async function leadToPage(
    wanted: Wanted & { readonly target: Target; readonly method: string; readonly path: string },
    gone: AbortSignal,
    refuseWith: Refuse,
  ) {
    const seen = parts.credentials.putInto({ ...wanted, rawHeaders: [], secure: false })
    if ('refused' in seen) {
      failing(wanted, gone, refuseWith)(blockedBy(seen))
      return null
    }
    const socket = await lead(wanted, gone, refuseWith)
    return socket === null ? null : { socket, scrub: seen.scrub }
  }

  function misnamed(why: string, wanted: Wanted, refuseWith: Refuse): void {
    const sentence = `Cannot tell where this is to go: ${why}`
    passed.blocked(wanted.target, sentence)
    refuseWith({ status: 400, wanted, why: sentence })
  }

  return {
    look: held.look,
    isOpenedTo,
    allow,
    reach,
    failing,
    lead,
    leadToPage,
    misnamed,
    close() {
      for (const socket of upstreams) socket.destroy()
    },
  }
}

/** A call that nothing is put into, as it is refused. */
export const blockedBy = ({ refused, instead }: NotFilled): ConnectionFailure => ({
  blocked: refused,
  ...(instead === undefined ? {} : { instead }),
})

export const actionOf = ({ target, method, path }: Known): NetAction => ({
  ...{ kind: 'net', host: target.host, port: target.port, method, path },
})

/** Of what was blocked, its method and path; never a query, which may hold what is nobody's business. */
const inWords = ({ method, path }: Wanted, why: string): string =>
  method === null || path === null ? why : `${method} ${path.replace(/\?.*/s, '')}: ${why}`
