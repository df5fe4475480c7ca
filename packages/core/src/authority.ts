import { type Action, actionBounds, type Digest, type Pin } from '@anchorhold/protocol/actions'
import type { EventBody, NewEvent, RequestAction, RequestAnswer } from '@anchorhold/protocol/events'
import type { RequestId } from '@anchorhold/protocol/ids'
import type { Authority as Terms, Grant, Told } from '@anchorhold/protocol/link'
import type { Policy } from '@anchorhold/protocol/policy'
import { printableLine } from './printable.ts'
import { canonicalJson, digestOf } from './policy/digest.ts'
import { compilePolicy, type CompiledPolicy, decide } from './policy/decide.ts'
import type { Meaning } from './policy/meaning.ts'
import { suggestRule } from './policy/suggest.ts'

/** What decides over one session's actions where they happen: its policy, what people have allowed, and what they are asked.
 *  Invariants: nothing is let through but by a rule, a setting or a grant; a grant for one action lets one through, and that is
 *  written down before the action goes on; nobody is asked before the request is written down. */
export interface Authority {
  /** Whether an action may happen. Waits for a person where the policy says so; aborting the signal ends the waiting. */
  judge(wanted: Wanted, signal: AbortSignal): Promise<Verdict>
  /** Asks for an action before it happens. What is allowed is kept for when it does; nothing is used up. `said` is what whoever asks
   *  wants to be told along with it. */
  askAhead(meaning: Meaning, said: string, signal: AbortSignal): Promise<Verdict>
  /** Asks people for what no rule can answer. */
  ask(question: Question, signal: AbortSignal): Promise<Heard>
  /** The same, for whoever may find another way while they wait. */
  open(question: Question): Promise<Asking>
  /** Uses up a grant for just this action, if there is one, where something else has let it through. */
  use(action: Action): void
  /** Takes in how a request was settled. To be told twice does no harm. */
  answer(answered: Answered): Promise<Told>
  setPolicy(policy: Policy): void
  /** Takes the word of the log on what is allowed and asked. What it has not heard of yet stands. */
  update(terms: Terms, hasHeardOf: (request: RequestId) => boolean): void
  /** Everything that somebody waits for here is taken back. */
  takeBackAll(reason: string): Promise<void>
  /** Nobody waits here any more; what was asked stays open. */
  leaveAll(): void
  /** How many requests somebody waits for. */
  readonly waiting: number
  /** What a process that comes after this one must know. */
  readonly terms: Terms
}

export type Verdict = { readonly allow: true; readonly by: string } | { readonly allow: false; readonly why: string }

/** An action that is about to happen. */
export type Wanted = {
  readonly meaning: Meaning
  readonly call: string | null
  /** The files that it would execute, as they are now. Throws with a sentence when they cannot be read. */
  readonly pins: () => Promise<readonly Pin[]>
}

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

export type AuthorityParts = {
  readonly terms: Terms
  /** Who asks: `keeper` or `gate`. */
  readonly name: string
  /** What becomes of a request when whoever waits for it goes away. */
  readonly whenLeft: 'take back' | 'stay open'
  /** Writes an event down, so that it survives this process, and brings it to the disk soon. */
  readonly write: (event: NewEvent) => void
  /** Resolves when all that was written is on the disk. */
  readonly flush: () => Promise<void>
  /** Does this after all that was heard before; a request is opened only where `mayAsk` then says so. */
  readonly inOrder: <T>(work: () => Promise<T>) => Promise<T>
  readonly mayAsk: () => boolean
  readonly now: () => number
  readonly newRequest: () => RequestId
  readonly sha256: (text: string) => Digest
  /** Grants that were used and requests whose answers were heard before this began. */
  readonly before?: { readonly used: Iterable<RequestId>; readonly told: Iterable<RequestId> }
}

/** What a request is known by and what would settle it, beside what it asks. */
type About = Pick<EventBody<'request.opened'>, 'rule' | 'rule_refused'> & {
  readonly digest: Digest
  readonly pins: readonly Pin[]
}
type Waiter = { readonly resolve: (answer: Heard) => void }

/** The digest of what a person is asked. What is no action is known by its words. */
const digestOfQuestion = (action: RequestAction, sha256: AuthorityParts['sha256']): Digest =>
  action.kind === 'question' || action.kind === 'plan'
    ? sha256(`anchorhold question 1\n${canonicalJson(action)}`)
    : digestOf(action, sha256)

/** So many requests of one session are open at once: a cell that asks for ever more must not bury those that matter. */
const askedMax = 50

export function authority(parts: AuthorityParts): Authority {
  const { name, write, flush, now, sha256 } = parts
  let compiled = compilePolicy(parts.terms.policy)
  const grants = new Map(parts.terms.grants.map((grant) => [grant.request, grant]))
  const asked = new Map(parts.terms.asked.map((one) => [one.request, one]))
  const waiters = new Map<RequestId, Set<Waiter>>()
  const used = new Set(parts.before?.used)
  const told = new Set(parts.before?.told)
  /** Requests whose answer has come by here, whether or not anybody waited for it. */
  const settled = new Set(told)
  /** Requests that a new policy settled for whoever waited: they have gone on by it, so an answer that comes too finds them told. */
  const moot = new Set<RequestId>()
  for (const request of used) grants.delete(request)
  let policyChanged = Promise.withResolvers<undefined>()

  const isOver = ({ expires_at }: { readonly expires_at: number | null }) => expires_at !== null && expires_at <= now()

  function digestOrNull(action: Action): Digest | null {
    try {
      return digestOf(action, sha256)
    } catch (error) {
      if (error instanceof RangeError) return null
      throw error
    }
  }

  async function judge(wanted: Wanted, signal: AbortSignal): Promise<Verdict> {
    const { meaning, call } = wanted
    const { action } = meaning
    const digest = digestOrNull(action)
    if (digest === null) return { allow: false, why: 'This is not allowed: it is nested too deeply to be read' }
    const settle = (effect: 'allow' | 'deny', by: string, more: { readonly unanswered?: true } = {}): Verdict => {
      const body: EventBody<'decision'> = { kind: action.kind, effect, by: by.slice(0, 2000), digest, call, ...more }
      write({ type: 'decision', body: action.kind === 'tool' ? body : { ...body, action } })
      return effect === 'allow' ? { allow: true, by } : { allow: false, why: by }
    }
    // Round again after an answer: what was allowed may have been used by another, and the policy may have changed.
    for (;;) {
      const decision = decide(compiled, meaning)
      if (decision.effect === 'deny') return settle('deny', `This is not allowed (${decision.by})`)
      if (decision.effect === 'allow') return settle('allow', decision.by)
      if (compiled.policy.observe) return settle('allow', `observed only: ${decision.by}`)
      const sized = tooLarge(action)
      if (sized !== null) return settle('deny', sized)
      let pins: readonly Pin[]
      try {
        pins = await wanted.pins()
      } catch (error) {
        return settle('deny', error instanceof Error ? error.message : String(error))
      }
      const granted = takeGrant(action, digest, pins) ?? takeRule(meaning, pins)
      if (granted !== null) {
        if ('changed' in granted) return settle('deny', granted.changed)
        write({ type: 'grant.used', body: { request: granted.request, digest, call } })
        await flush()
        return settle('allow', `${granted.request} allowed by ${granted.actor}`)
      }
      const { suggestion, why } = inWords(compiled, meaning, decision.by, decision.command)
      const asking = await open({ action, call, why }, { digest, pins, ...suggestion }, signal)
      const answer = await waitFor(asking, signal, () => decide(compiled, meaning).effect === 'ask')
      if (answer !== 'moot' && answer.decision !== 'allow')
        return settle('deny', refusalWords(answer), answer.decision === 'deny' ? {} : { unanswered: true })
    }
  }

  async function askAhead(meaning: Meaning, said: string, signal: AbortSignal): Promise<Verdict> {
    const { action } = meaning
    const digest = digestOrNull(action)
    if (digest === null) return { allow: false, why: 'This is not allowed: it is nested too deeply to be read' }
    for (;;) {
      const decision = decide(compiled, meaning)
      if (decision.effect === 'deny') return { allow: false, why: `This is not allowed (${decision.by})` }
      if (decision.effect === 'allow') return { allow: true, by: decision.by }
      if (compiled.policy.observe) return { allow: true, by: `observed only: ${decision.by}` }
      const sized = tooLarge(action)
      if (sized !== null) return { allow: false, why: sized }
      const kept = [...grants.values()].find((one) => one.digest === digest && one.rule === null && !isOver(one))
      const granted = kept ?? takeRule(meaning, [])
      if (granted !== null) return { allow: true, by: `${granted.request} allowed by ${granted.actor}` }
      const { suggestion, why } = inWords(compiled, meaning, decision.by, decision.command)
      const asking = await open({ action, call: null, why: `${why}${saidBy(said)}` }, { digest, pins: [], ...suggestion }, signal)
      const answer = await waitFor(asking, signal, () => decide(compiled, meaning).effect === 'ask')
      if (answer === 'moot') continue
      return answer.decision === 'allow'
        ? { allow: true, by: `${asking.request} allowed by ${answer.actor}` }
        : { allow: false, why: refusalWords(answer) }
    }
  }

  /** A grant for just this action, used up by being taken if it is for once. */
  function takeGrant(action: RequestAction, digest: Digest, pins: readonly Pin[]): Grant | { readonly changed: string } | null {
    for (const grant of grants.values()) {
      if (grant.digest !== digest || grant.rule !== null || exceeds(action, grant)) continue
      if (isOver(grant)) {
        grants.delete(grant.request)
        continue
      }
      const changed = changedPin(grant.pins, pins)
      if (changed !== null) {
        // What was allowed is not there any more; the next time somebody is asked anew.
        grants.delete(grant.request)
        return { changed: `"${changed}" is not what was allowed in ${grant.request}: it has changed since, so nothing was run` }
      }
      if (grant.scope === 'once') {
        grants.delete(grant.request)
        used.add(grant.request)
      }
      return grant
    }
    return null
  }

  /** A grant for this session that covers more than one action, as long as what it executes is what was allowed. */
  function takeRule(meaning: Meaning, pins: readonly Pin[]): Grant | null {
    for (const grant of grants.values()) {
      if (grant.rule === null || isOver(grant) || newPin(grant.pins, pins) !== undefined) continue
      const { policy } = compiled
      if (decide(compilePolicy({ ...policy, rules: [...policy.rules, grant.rule] }), meaning).effect === 'allow') return grant
    }
    return null
  }

  /** Opens a request, or joins the one that asks the same. */
  function open({ action, call, why, raises }: Question, about: About, signal: AbortSignal | null): Promise<Asking> {
    return parts.inOrder(async () => {
      if (!parts.mayAsk() || signal?.aborted === true) return unasked
      const { digest, pins, ...suggestion } = about
      const same = [...asked.values()].find((one) => one.digest === digest && !isOver(one) && changedPin(one.pins, pins) === null)
      if (same === undefined && [...asked.values()].filter((one) => !isOver(one)).length >= askedMax) return crowdedOut(name)
      const request = same?.request ?? parts.newRequest()
      if (same === undefined) {
        const expires_at = now() + compiled.policy.request_ms
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

  /** The answer; or that whoever asked has gone, or that a new policy has settled it. */
  async function waitFor(asking: Asking, signal: AbortSignal, isAsked: () => boolean): Promise<Heard | 'moot'> {
    const gone = Promise.withResolvers<Heard>()
    const left = () => {
      if (parts.whenLeft === 'take back') asking.takeBack('The agent no longer asks')
      else asking.leave(isTimeOver(signal) ? 'still wants it' : 'gave up')
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

  function takeBack(request: RequestId, reason: string): void {
    asked.delete(request)
    settled.add(request)
    const answer = { decision: 'withdrawn' as const, reason }
    write({ type: 'request.answered', body: { id: request, answer, actor: name, door: 'none' } })
  }

  /** Whoever waits for it hears it. */
  function settleWaiters(request: RequestId, answer: Heard): void {
    const all = waiters.get(request)
    waiters.delete(request)
    for (const { resolve } of all ?? []) resolve(answer)
    // Whoever goes away from here on leaves nothing behind that could be taken back.
    all?.clear()
  }

  function enforce(policy: Policy): void {
    compiled = compilePolicy(policy)
    const before = policyChanged
    policyChanged = Promise.withResolvers()
    before.resolve(undefined)
  }

  return {
    judge,
    askAhead,
    async ask(question, signal) {
      const { action, call } = question
      const digest = digestOfQuestion(action, sha256)
      const granted = action.kind === 'plan' ? takeGrant(action, digest, []) : null
      if (granted !== null && !('changed' in granted)) {
        write({ type: 'grant.used', body: { request: granted.request, digest, call } })
        await flush()
        return { decision: 'allow', actor: granted.actor }
      }
      const answer = await waitFor(await open(question, { digest, pins: [] }, signal), signal, () => true)
      if (answer === 'moot') throw new Error('A policy settled what no rule can answer')
      if (answer.decision !== 'allow' || action.kind !== 'plan') return answer
      const used = takeGrant(action, digest, [])
      if (used !== null && !('changed' in used)) write({ type: 'grant.used', body: { request: used.request, digest, call } })
      await flush()
      return answer
    },
    open: (question) => open(question, { digest: digestOfQuestion(question.action, sha256), pins: [] }, null),
    use(action) {
      const digest = digestOf(action, sha256)
      const used = takeGrant(action, digest, [])
      if (used !== null && !('changed' in used))
        write({ type: 'grant.used', body: { request: used.request, digest, call: null } })
    },
    async answer({ request, answer, actor, grant }) {
      asked.delete(request)
      settled.add(request)
      if (told.has(request)) return { told: true }
      const isMoot = moot.delete(request)
      if (grant !== null && !used.has(request) && !isMoot) grants.set(request, grant)
      if (!waiters.has(request) && !isMoot) return { told: false }
      told.add(request)
      write({ type: 'request.told', body: { id: request } })
      await flush()
      settleWaiters(request, { ...answer, actor })
      return { told: true }
    },
    setPolicy: enforce,
    update(terms, hasHeardOf) {
      enforce(terms.policy)
      grants.clear()
      for (const grant of terms.grants) if (!used.has(grant.request)) grants.set(grant.request, grant)
      const open = new Set(terms.asked.map((one) => one.request))
      for (const request of [...asked.keys()]) {
        if (open.has(request) || !hasHeardOf(request)) continue
        asked.delete(request)
        settleWaiters(request, withdrawn('It was settled while nobody could say so', 'daemon'))
      }
      for (const one of terms.asked) if (!settled.has(one.request)) asked.set(one.request, one)
    },
    async takeBackAll(reason) {
      for (const request of [...waiters.keys()]) {
        takeBack(request, reason)
        settleWaiters(request, withdrawn(reason, name))
      }
      await flush()
    },
    leaveAll() {
      for (const request of [...waiters.keys()]) settleWaiters(request, withdrawn('It is asked while nobody waits', name))
    },
    get waiting() {
      return waiters.size
    },
    get terms() {
      return { policy: compiled.policy, grants: [...grants.values()], asked: [...asked.values()] }
    },
  }
}

const isTimeOver = ({ reason }: AbortSignal) => reason instanceof Error && reason.name === 'TimeoutError'
const withdrawn = (reason: string, actor: string): Heard => ({ decision: 'withdrawn', reason, actor })
/** Where nobody may be asked any more. */
const unasked: Asking = {
  request: null,
  answered: Promise.resolve(withdrawn('The turn ended before anybody was asked', 'keeper')),
  leave() {},
  takeBack() {},
}

/** Where so much is asked that nobody could answer it all. */
const crowdedOut = (name: string): Asking => ({
  ...unasked,
  answered: Promise.resolve(withdrawn(`too much is being asked already: ${askedMax} requests are open`, name)),
})

/** What the agent reads. */
export function refusalWords({ decision, reason, actor }: Heard): string {
  const because = reason === undefined || reason === '' ? '' : `: ${reason}`
  switch (decision) {
    case 'deny':
      return `${actor} denied it${because}`
    case 'expired':
      return 'Nobody answered in time, so it is not allowed'
    default:
      return `It ended without an answer${because}`
  }
}

function inWords(compiled: CompiledPolicy, meaning: Meaning, by: string, command: string | undefined) {
  const suggested = suggestRule(compiled, meaning)
  const suggestion = suggested.rule === null ? { rule_refused: suggested.inTheWay.slice(0, 2000) } : { rule: suggested.rule }
  return { suggestion, why: (command === undefined ? by : `${by} (of ${command})`).slice(0, 1200) }
}

/** Words of the agent's own, told as such: they stay on one line and within their quotes. */
const saidBy = (said: string): string => `. The agent says: “${printableLine(said).replaceAll(/[“”]/g, '"').slice(0, 700)}”`

/** The first file that is not as it was, or that was not there. */
function changedPin(before: readonly Pin[], after: readonly Pin[]): string | null {
  return (newPin(before, after) ?? newPin(after, before))?.path ?? null
}

/** The first of `pins` that is not among those. */
function newPin(among: readonly Pin[], pins: readonly Pin[]): Pin | undefined {
  const known = new Set(among.map(({ path, sha256 }) => `${sha256} ${path}`))
  return pins.find(({ path, sha256 }) => !known.has(`${sha256} ${path}`))
}

/** A call that is made again has grown by what was said since; one that costs much more is another call. */
const exceeds = (action: RequestAction, { nanos }: Grant): boolean =>
  action.kind === 'spend' && nanos != null && action.needed_nanos > nanos * 1.25

/** What cannot be shown to a person whole is refused, not asked. */
function tooLarge(action: Action): string | null {
  const shown = action.kind === 'tool' ? action.input : action.kind === 'host' ? action.params : {}
  const fields = action.kind === 'host' ? Object.keys(shown).length : 0
  if (JSON.stringify(shown).length <= actionBounds.inputChars && fields <= actionBounds.params) return null
  return 'This would have to be asked for, and it is too large to be shown to a person whole'
}
