import type { Action, Digest, Pin } from '@anchorhold/protocol/actions'
import type { Authority as Terms, Grant, Told } from '@anchorhold/protocol/authority'
import type { EventBody, RequestAction } from '@anchorhold/protocol/events'
import type { RequestId } from '@anchorhold/protocol/ids'
import type { Policy } from '@anchorhold/protocol/policy'
import { compilePolicy, decide } from '../policy/decide.ts'
import { canonicalJson, digestOf } from '../policy/digest.ts'
import type { Meaning } from '../policy/meaning.ts'
import { type Answered, type Asking, type AskingParts, type Heard, openRequests, type Question } from './asking.ts'
import { openGrants } from './grants.ts'
import { inWords, refusalWords, saidBy, tooLarge } from './words.ts'

/** What decides over one session's actions where they happen: its policy, what people have allowed, and what they are asked.
 *  Invariants: nothing is let through but by a rule, a setting or a grant; a grant for one action lets one through, and that is
 *  written down before the action goes on; nobody is asked before the request is written down. */
export interface Authority {
  /** Whether an action may happen. Waits for a person where the policy says so, for as long as `patience` gives. */
  judge(wanted: Wanted, patience: Patience): Promise<Verdict>
  /** Asks for an action before it happens. What is allowed is kept for when it does; nothing is used up. `said` is what whoever asks
   *  wants to be told along with it. */
  askAhead(meaning: Meaning, said: string, patience: Patience): Promise<Verdict>
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
  /** The one in force. */
  readonly policy: Policy
  /** Whether people have allowed anything that is not used up. */
  readonly holdsGrants: boolean
  /** What a process that comes after this one must know, put together anew each time. */
  readonly terms: Terms
}

/** A signal that ends the waiting. Made only where somebody is asked: most actions wait for nobody, and it costs as much as judging them. */
export type Patience = () => AbortSignal

export type Verdict = { readonly allow: true; readonly by: string } | { readonly allow: false; readonly why: string }

/** An action that is about to happen. */
export type Wanted = {
  readonly meaning: Meaning
  readonly call: string | null
  /** The files that it would execute, as they are now. Throws with a sentence when they cannot be read. */
  readonly pins: () => Promise<readonly Pin[]>
}

export type AuthorityParts = AskingParts & {
  readonly terms: Terms
  readonly sha256: (text: string) => Digest
  /** Whether a decision need not be written down, because one like it was. */
  readonly isTold?: (action: Action, decision: Settled) => boolean
  /** Grants that were used and requests whose answers were heard before this began. */
  readonly before?: { readonly used: Iterable<RequestId>; readonly told: Iterable<RequestId> }
}

/** The digest of what a person is asked. What is no action is known by its words. */
const digestOfQuestion = (action: RequestAction, sha256: AuthorityParts['sha256']): Digest =>
  action.kind === 'question' || action.kind === 'plan'
    ? sha256(`anchorhold question 1\n${canonicalJson(action)}`)
    : digestOf(action, sha256)

/** How an action is settled: as it is about to happen, or ahead of that. */
type Settling = {
  readonly call: string | null
  readonly pins: () => Promise<readonly Pin[]>
  /** What of people's allowances lets it through. */
  readonly granted: (pins: readonly Pin[]) => Promise<Settled | null>
  /** Why somebody is asked, with what is to be told along with it. */
  readonly asks: (why: string) => string
  /** What was allowed is kept for later, and not used now. */
  readonly isAhead: boolean
}
export type Settled = { readonly effect: 'allow' | 'deny'; readonly by: string; readonly unanswered?: true }

export function authority(parts: AuthorityParts): Authority {
  const { write, flush, now, sha256 } = parts
  let compiled = compilePolicy(parts.terms.policy)
  const grants = openGrants(parts.terms.grants, parts.before?.used ?? [], now)
  const requests = openRequests({
    ...parts,
    asked: parts.terms.asked,
    lifeMs: () => compiled.policy.request_ms,
    toldBefore: parts.before?.told ?? [],
  })

  async function settle(meaning: Meaning, digest: () => Digest, how: Settling, patience: Patience): Promise<Settled> {
    const { action } = meaning
    // Round again after an answer: what was allowed may have been used by another, and the policy may have changed.
    for (;;) {
      const decision = decide(compiled, meaning)
      if (decision.effect === 'deny') return { effect: 'deny', by: `This is not allowed (${decision.by})` }
      if (decision.effect === 'allow') return { effect: 'allow', by: decision.by }
      if (compiled.policy.observe) return { effect: 'allow', by: `observed only: ${decision.by}` }
      const sized = tooLarge(action)
      if (sized !== null) return { effect: 'deny', by: sized }
      let pins: readonly Pin[]
      try {
        pins = await how.pins()
      } catch (error) {
        return { effect: 'deny', by: error instanceof Error ? error.message : String(error) }
      }
      const granted = await how.granted(pins)
      if (granted !== null) return granted
      const { suggestion, why } = inWords(compiled, meaning, decision.by, decision.command)
      const signal = patience()
      const question = { action, call: how.call, why: how.asks(why) }
      const asking = await requests.open(question, { digest: digest(), pins, ...suggestion }, signal)
      const answer = await requests.waitFor(asking, signal, () => decide(compiled, meaning).effect === 'ask')
      if (answer === 'moot') continue
      if (answer.decision !== 'allow')
        return { effect: 'deny', by: refusalWords(answer), ...(answer.decision === 'deny' ? {} : { unanswered: true }) }
      if (how.isAhead) return { effect: 'allow', by: `${asking.request} allowed by ${answer.actor}` }
    }
  }

  async function judge({ meaning, call, pins }: Wanted, patience: Patience): Promise<Verdict> {
    const { action } = meaning
    const digest = digestWhenNeeded(action, sha256)
    if (digest === null) return tooDeep
    const how: Settling = {
      call,
      pins,
      async granted(now) {
        const grant = grants.take(action, digest(), now)
        if (grant !== null && 'changed' in grant) return { effect: 'deny', by: grant.changed }
        const used = grant === null ? grants.takeRules(compiled, meaning, now) : [grant]
        if (used.length === 0) return null
        for (const { request } of used) write({ type: 'grant.used', body: { request, digest: digest(), call } })
        await flush()
        return { effect: 'allow', by: allowedBy(used) }
      },
      asks: (why) => why,
      isAhead: false,
    }
    const settled = await settle(meaning, digest, how, patience)
    const told = { ...settled, by: settled.by.slice(0, 2000) }
    if (parts.isTold?.(action, told) !== true) {
      const body: EventBody<'decision'> = { kind: action.kind, ...told, digest: digest(), call }
      write({ type: 'decision', body: action.kind === 'tool' ? body : { ...body, action } })
    }
    return verdict(settled)
  }

  async function askAhead(meaning: Meaning, said: string, patience: Patience): Promise<Verdict> {
    const digest = digestWhenNeeded(meaning.action, sha256)
    if (digest === null) return tooDeep
    const how: Settling = {
      call: null,
      pins: async () => [],
      async granted() {
        const grant = grants.find(digest())
        const found = grant === null ? grants.takeRules(compiled, meaning, []) : [grant]
        return found.length === 0 ? null : { effect: 'allow', by: allowedBy(found) }
      },
      asks: (why) => `${why}${saidBy(said)}`,
      isAhead: true,
    }
    return verdict(await settle(meaning, digest, how, patience))
  }

  /** Takes a grant for just this, and writes down that it is used. */
  function useGrant(action: RequestAction, digest: Digest, call: string | null) {
    const grant = grants.take(action, digest, [])
    if (grant === null || 'changed' in grant) return null
    write({ type: 'grant.used', body: { request: grant.request, digest, call } })
    return grant
  }

  function enforce(policy: Policy): void {
    compiled = compilePolicy(policy)
    requests.policyChanged()
  }

  return {
    judge,
    askAhead,
    async ask(question, signal) {
      const { action, call } = question
      const digest = digestOfQuestion(action, sha256)
      const grant = action.kind === 'plan' ? useGrant(action, digest, call) : null
      if (grant !== null) {
        await flush()
        return { decision: 'allow', actor: grant.actor }
      }
      const asking = await requests.open(question, { digest, pins: [] }, signal)
      const answer = await requests.waitFor(asking, signal, () => true)
      if (answer === 'moot') throw new Error('A policy settled what no rule can answer')
      if (answer.decision !== 'allow' || action.kind !== 'plan') return answer
      useGrant(action, digest, call)
      await flush()
      return answer
    },
    open: (question) => requests.open(question, { digest: digestOfQuestion(question.action, sha256), pins: [] }, null),
    use: (action) => void useGrant(action, digestOf(action, sha256), null),
    async answer({ request, answer, actor, grant }) {
      const heard = requests.heard(request)
      if (heard === 'told before') return { told: true }
      if (grant !== null && heard !== 'moot') grants.add(grant)
      if (heard === 'nobody waits') return { told: false }
      await requests.tell(request, { ...answer, actor })
      return { told: true }
    },
    setPolicy: enforce,
    update(terms, hasHeardOf) {
      enforce(terms.policy)
      grants.replace(terms.grants)
      requests.update(terms.asked, hasHeardOf)
    },
    takeBackAll: requests.takeBackAll,
    leaveAll: requests.leaveAll,
    get waiting() {
      return requests.waiting
    },
    get policy() {
      return compiled.policy
    },
    get holdsGrants() {
      return !grants.empty
    },
    get terms() {
      return { policy: compiled.policy, grants: [...grants.all], asked: [...requests.all] }
    },
  }
}

const allowedBy = (grants: readonly Grant[]): string =>
  grants.map(({ request, actor }) => `${request} allowed by ${actor}`).join(', ')
const tooDeep: Verdict = { allow: false, why: 'This is not allowed: it is nested too deeply to be read' }
const verdict = ({ effect, by }: Settled): Verdict => (effect === 'allow' ? { allow: true, by } : { allow: false, why: by })

/** Made once it is needed, which it rarely is for a call that is made a thousand times over; null for what cannot be read. */
function digestWhenNeeded(action: Action, sha256: AuthorityParts['sha256']): (() => Digest) | null {
  let made: Digest | null = null
  const digest = () => (made ??= digestOf(action, sha256))
  // Nothing is nested in a call.
  if (action.kind === 'net') return digest
  try {
    digest()
    return digest
  } catch (error) {
    if (error instanceof RangeError) return null
    throw error
  }
}
