import type { IncomingMessage } from 'node:http'
import type { NetAction } from '@anchorhold/protocol/actions'
import type { Fill, Filled } from './credentials.ts'
import { type Asked, askedOf } from './exchange.ts'
import type { ConnectionFailure, Place } from './kept-connections.ts'
import { nothing } from './refusals.ts'
import { actionOf, blockedBy, type Caller, type Refuse, type Ways } from './ways.ts'
import type { Within } from './within.ts'

export type CallsParts = {
  /** Why a rule forbids it, without anybody being asked; null where none does. */
  readonly denies: (action: NetAction) => string | null
  /** What puts secrets into calls that they are for. */
  readonly credentials: Fill
}

/** What becomes of a request once it may be made, with what was put into it. */
export type GoOn = (
  asked: Asked,
  place: Place,
  filled: Filled,
  secure: boolean,
  fail: (why: ConnectionFailure) => void,
) => Promise<void>
/** Looks into a request where its method and path do not say enough. */
export type Look = (asked: Asked) => Promise<'answered' | { readonly judgedAs: string } | null>

/** Answers one request: reads where it is to go, has that judged, and puts secrets into it.
 *  Invariant: what is judged is what is sent, but for what the look into it says more of. */
export function netCalls(parts: CallsParts, ways: Ways, within: Within) {
  return async function answer(
    request: IncomingMessage,
    caller: Caller,
    refuseWith: Refuse,
    goOn: GoOn,
    look: Look = async () => null,
  ): Promise<void> {
    const method = request.method ?? ''
    const { target: only = null, secure = false } = within.get(request.socket) ?? {}
    const asked = askedOf(request, only)
    if ('misnamed' in asked) return ways.misnamed(asked.misnamed, { ...nothing, method }, refuseWith)
    const wanted = { target: asked.target, method, path: asked.path }
    const fail = ways.failing(wanted, caller.gone, refuseWith)
    try {
      const seen = await look(asked)
      if (seen === 'answered') return
      const call = { ...wanted, rawHeaders: request.rawHeaders, secure }
      // Nobody is asked for what would not happen anyway.
      const before = parts.credentials.putInto(call)
      if ('refused' in before) return fail(blockedBy(before))
      const differs = () => {
        const again = parts.credentials.putInto(call)
        if ('refused' in again) return again.refused
        return before.used.every((name) => again.used.includes(name)) ? null : 'A secret is in it that is for something else now'
      }
      const judged = seen === null ? wanted : { ...wanted, path: seen.judgedAs }
      // A rule against the path itself holds for all that is in it.
      const denied = judged.path === wanted.path ? null : parts.denies(actionOf(wanted))
      if (denied !== null) return fail({ blocked: denied })
      const place = await ways.allow(judged, caller, differs, refuseWith)
      if (place === null) return
      // What is in force may be another by now.
      const filled = parts.credentials.putInto(call)
      if ('refused' in filled) return fail(blockedBy(filled))
      await goOn(asked, place, filled, secure, fail)
    } catch {
      // A bug. Its words stay here.
      refuseWith({ status: 503, wanted, why: 'The window failed' })
    }
  }
}
