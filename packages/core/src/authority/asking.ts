import type { Digest, Pin } from '@anchorhold/protocol/actions'
import type { Asked, Grant } from '@anchorhold/protocol/authority'
import type { EventBody, NewEvent, RequestAction, RequestAnswer } from '@anchorhold/protocol/events'
import type { RequestId } from '@anchorhold/protocol/ids'
import { changedPin } from './pins.ts'

export type Question = {
  readonly action: RequestAction
  readonly call: string | null
  readonly why?: string
  readonly raises?: EventBody<'request.opened'>['raises']
}

/** An answer, and who gave it. */
export type Heard = RequestAnswer & { readonly actor: string }

/** Somebody waits for an answer. */
export type Asking = {
  readonly request: RequestId | null
  readonly answered: Promise<Heard>
  /** Waits no longer; the request stays open. Whoever has given up may not want it any more once the turn is over. */
  leave(how: 'gave up' | 'still wants it'): void
  /** Takes the request back, unless somebody else waits for it as well. */
  takeBack(reason: string): void
}

export type Answered = {
  readonly request: RequestId
  readonly answer: RequestAnswer
  readonly actor: string
  readonly grant: Grant | null
}

/** What a request is known by and what would settle it, beside what it asks. */
export type About = Pick<EventBody<'request.opened'>, 'rule' | 'rule_refused'> & {
  readonly digest: Digest
  readonly pins: readonly Pin[]
}
/** The requests of one session that are open, and who waits for them here.
 *  Invariant: nobody waits for a request before it is on the disk. */
export interface Requests {
  /** Opens a request, or joins the one that asks the same. */
  open(question: Question, about: About, signal: AbortSignal | null): Promise<Asking>
  /** The answer; or that whoever asked has gone, or that a new policy has settled it. */
  waitFor(asking: Asking, signal: AbortSignal, isAsked: () => boolean): Promise<Heard | 'moot'>
  /** Takes in an answer, and says what becomes of it: whoever waited has gone on by a new policy (`moot`), or has heard of it before, or
   *  somebody waits, or nobody does. */
  heard(request: RequestId): 'told before' | 'moot' | 'waited for' | 'nobody waits'
  tell(request: RequestId, answer: Heard): Promise<void>
  /** Whoever waits looks at the policy again. */
  policyChanged(): void
  /** Takes the word of the log on what is open. What it has not heard of yet stands. */
  update(open: readonly Asked[], hasHeardOf: (request: RequestId) => boolean): void
  takeBackAll(reason: string): Promise<void>
  leaveAll(): void
  readonly waiting: number
  readonly all: readonly Asked[]
}

/** What asking takes of the process that it happens in. */
export type AskingParts = {
  /** Who asks: `keeper` or `gate`. */
  readonly name: string
  /** What becomes of a request when whoever waits for it goes away: it stays open; or it is taken back, by the work that is handed over,
   *  which is to be done when it is known whether everybody goes. Then it stays open as well: the next one tells the agent. */
  readonly whenLeft: 'stay open' | { readonly takeBack: (work: () => void) => void }
  /** Writes an event down, so that it survives this process, and brings it to the disk soon. */
  readonly write: (event: NewEvent) => void
  /** Resolves when all that was written is on the disk. */
  readonly flush: () => Promise<void>
  /** Does this after all that was heard before; a request is opened only where `mayAsk` then says so. */
  readonly inOrder: <T>(work: () => Promise<T>) => Promise<T>
  readonly mayAsk: () => boolean
  readonly now: () => number
  readonly newRequest: () => RequestId
}

type RequestsParts = AskingParts & {
  readonly asked: readonly Asked[]
  /** How long a request can be answered. */
  readonly lifeMs: () => number
  readonly toldBefore: Iterable<RequestId>
}

/** So many requests of one session are open at once: a cell that asks for ever more must not bury those that matter. */
const askedMax = 50

type Waiter = { readonly resolve: (answer: Heard) => void }

export function openRequests(parts: RequestsParts): Requests {
  const { name, write, flush, now } = parts
  const asked = new Map(parts.asked.map((one) => [one.request, one]))
  const waiters = new Map<RequestId, Set<Waiter>>()
  const told = new Set(parts.toldBefore)
  /** Requests whose answer has come by here, whether or not anybody waited for it. */
  const settled = new Set(told)
  /** Requests that a new policy settled for whoever waited: they have gone on by it, so an answer that comes too finds them told. */
  const moot = new Set<RequestId>()
  let policyChanged = Promise.withResolvers<undefined>()
  const isOver = ({ expires_at }: Asked) => expires_at !== null && expires_at <= now()

  function open({ action, call, why, raises }: Question, about: About, signal: AbortSignal | null): Promise<Asking> {
    return parts.inOrder(async () => {
      if (!parts.mayAsk() || signal?.aborted === true) return unasked(name)
      const { digest, pins, ...suggestion } = about
      const same = [...asked.values()].find((one) => one.digest === digest && !isOver(one) && changedPin(one.pins, pins) === null)
      if (same === undefined && [...asked.values()].filter((one) => !isOver(one)).length >= askedMax) return crowdedOut(name)
      const request = same?.request ?? parts.newRequest()
      if (same === undefined) {
        const expires_at = now() + parts.lifeMs()
        asked.set(request, { request, digest, pins: [...pins], expires_at })
        const more = { ...(why === undefined ? {} : { why }), ...(raises === undefined ? {} : { raises }), ...suggestion }
        write({ type: 'request.opened', body: { id: request, call, action, digest, pins: [...pins], expires_at, ...more } })
      }
      const { promise, resolve } = Promise.withResolvers<Heard>()
      const waiter = { resolve }
      const all = waiters.get(request) ?? new Set()
      waiters.set(request, all.add(waiter))
      const goAway = (): boolean => {
        if (!all.delete(waiter) || all.size > 0) return false
        waiters.delete(request)
        return asked.has(request)
      }
      await flush()
      return {
        request,
        answered: promise,
        leave(how) {
          if (goAway() && how === 'gave up') write({ type: 'request.left', body: { id: request } })
        },
        takeBack(reason) {
          if (goAway()) takeBack(request, reason)
        },
      }
    })
  }

  async function waitFor(asking: Asking, signal: AbortSignal, isAsked: () => boolean): Promise<Heard | 'moot'> {
    const gone = Promise.withResolvers<Heard>()
    const left = () => {
      if (parts.whenLeft === 'stay open') asking.leave(isTimeOver(signal) ? 'still wants it' : 'gave up')
      else {
        asking.leave('still wants it')
        parts.whenLeft.takeBack(() => takeBackUnwanted(asking.request))
      }
      gone.resolve(withdrawn(isTimeOver(signal) ? 'Nobody answered in time' : 'Nobody waits for it any more', name))
    }
    signal.addEventListener('abort', left, { once: true })
    if (signal.aborted) left()
    try {
      for (;;) {
        // The policy may have changed while the request was being written down.
        if (!isAsked()) {
          if (asking.request !== null) moot.add(asking.request)
          asking.takeBack('The policy has changed, and settles it')
          return 'moot'
        }
        const answer = await Promise.race([asking.answered, gone.promise, policyChanged.promise])
        if (answer !== undefined) return answer
      }
    } finally {
      signal.removeEventListener('abort', left)
    }
  }

  /** Nobody waits for it, and the agent that asked lives. */
  function takeBackUnwanted(request: RequestId | null): void {
    if (request !== null && parts.mayAsk() && asked.has(request) && !waiters.has(request))
      takeBack(request, 'The agent no longer asks')
  }

  function takeBack(request: RequestId, reason: string): void {
    asked.delete(request)
    settled.add(request)
    const answer = { decision: 'withdrawn' as const, reason }
    write({ type: 'request.answered', body: { id: request, answer, actor: name, door: 'none' } })
  }

  /** Those who wait for it, who leave nothing behind any more that could be taken back. */
  function takeWaiters(request: RequestId): readonly Waiter[] {
    const all = waiters.get(request)
    const taken = [...(all ?? [])]
    waiters.delete(request)
    all?.clear()
    return taken
  }
  /** Whoever waits for it hears it. */
  function settleWaiters(request: RequestId, answer: Heard): void {
    for (const { resolve } of takeWaiters(request)) resolve(answer)
  }

  return {
    open,
    waitFor,
    heard(request) {
      asked.delete(request)
      settled.add(request)
      if (told.has(request)) return 'told before'
      if (moot.delete(request)) return 'moot'
      return waiters.has(request) ? 'waited for' : 'nobody waits'
    },
    async tell(request, answer) {
      told.add(request)
      write({ type: 'request.told', body: { id: request } })
      // From here on it is theirs, whatever happens to those who wait for something else.
      const theirs = takeWaiters(request)
      await flush()
      for (const { resolve } of theirs) resolve(answer)
    },
    policyChanged() {
      const before = policyChanged
      policyChanged = Promise.withResolvers()
      before.resolve(undefined)
    },
    update(all, hasHeardOf) {
      const open = new Set(all.map((one) => one.request))
      for (const request of [...asked.keys()]) {
        if (open.has(request) || !hasHeardOf(request)) continue
        asked.delete(request)
        settleWaiters(request, withdrawn('It was settled while nobody could say so', 'daemon'))
      }
      for (const one of all) if (!settled.has(one.request)) asked.set(one.request, one)
    },
    async takeBackAll(reason) {
      for (const request of [...waiters.keys()]) {
        takeBack(request, reason)
        settleWaiters(request, withdrawn(reason, name))
      }
      await flush()
    },
    leaveAll() {
      for (const request of [...waiters.keys()])
        settleWaiters(request, withdrawn('It stays asked, and is done when it is allowed', name))
    },
    get waiting() {
      return waiters.size
    },
    get all() {
      return [...asked.values()]
    },
  }
}

const isTimeOver = ({ reason }: AbortSignal) => reason instanceof Error && reason.name === 'TimeoutError'
const withdrawn = (reason: string, actor: string): Heard => ({ decision: 'withdrawn', reason, actor })
/** Where nobody may be asked any more. */
const unasked = (name: string, why = 'The turn ended before anybody was asked'): Asking => ({
  request: null,
  answered: Promise.resolve(withdrawn(why, name)),
  leave() {},
  takeBack() {},
})

/** Where so much is asked that nobody could answer it all. */
const crowdedOut = (name: string): Asking => unasked(name, `too much is being asked already: ${askedMax} requests are open`)
