import type { IncomingMessage, ServerResponse } from 'node:http'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { Rates } from '@anchorhold/protocol/gate-commands'
import type { Settlement } from '@anchorhold/protocol/link'
import type { Spend } from '@anchorhold/protocol/sessions'
import type { SessionAuthority } from '../../authority.ts'
import type { Books } from '../../money/books.ts'
import type { Account } from '../../money/account.ts'
import type { Authorised, Upstream } from '../../providers/providers.ts'
import type { RateLimits } from '../../money/rates.ts'
import { answerIn, refused, unwritable } from './answers.ts'
import type { Answer, Dialect, Endpoint, Screened } from './dialect.ts'
import { costless, forward, type Outcome } from './forward.ts'
import { type HeldCalls, heldCalls, type Refusal, shortAction, spendAction } from './held.ts'
import { modelPolicy, type ModelPolicy, refuseVariant } from './model-policy.ts'
import { budgetSentence, callMoney, type SetAside } from './money.ts'

/** On what terms a session may call its model. */
export type Terms = {
  readonly upstream: Upstream
  /** What the owner allows beyond what agents need. */
  readonly allow: ReadonlySet<string>
  /** What becomes of a call that the lease does not hold. */
  readonly spend: Spend
  readonly rates: Rates | undefined
}

export type CallsParts = {
  readonly session: SessionId
  readonly dialect: Dialect
  readonly terms: Terms
  readonly account: Account
  readonly books: Books
  readonly authority: SessionAuthority
  readonly rates: RateLimits
  readonly now: () => number
  /** How long a call waits for somebody to pay for it. */
  readonly heldMs: number
  /** Whether it begins as after `pause()`. */
  readonly paused?: boolean
  /** Without a daemon, whose commands would raise the budget. */
  readonly alone?: boolean
}

/** The calls of one session to its model: what each may cost is written down before it is dialled, and what it did cost after it. */
export type ModelCalls = Pick<HeldCalls<SetAside>, 'price' | 'retry'> & {
  /** Makes the call that a body asks for, or refuses it, and answers. */
  make(body: Buffer, from: IncomingMessage, response: ServerResponse, endpoint: Endpoint): Promise<void>
  /** Why a turn that ends now was refused something, if it was. */
  takeRefusal(): Settlement['refused']
  /** Something changed for calls that are yet to come, these terms or the money: what is refused from here on is said anew. */
  update(terms?: Terms): void
  /** Holds new calls back, unanswered; running ones finish. */
  pause(): void
  resume(): void
  /** Resolves when every call that was dialled has its answer and is in the books. */
  quiet(): Promise<void>
  /** Ends every call at once. */
  abort(): void
}

export function modelCalls(parts: CallsParts): ModelCalls {
  const { session, dialect, account, books, authority, now } = parts
  const { agentOf } = dialect
  const answer = (response: ServerResponse, what: Answer) => answerIn(dialect, response, what)
  let terms = parts.terms
  let paused: PromiseWithResolvers<void> | null = parts.paused === true ? Promise.withResolvers() : null
  /** Why a call was refused here, and whose. What another agent or a count of tokens gets does not settle it. */
  let refusal: { readonly why: NonNullable<Settlement['refused']>; readonly agent: string | undefined } | null = null
  /** What was said already, so that it is said once. */
  let noticed = new Set<string>()
  let inForce = { of: authority.policy, ready: modelPolicy(authority.policy) }
  /** Calls that were dialled and are not in the books yet. */
  const open = new Set<Promise<void>>()
  const closing = new AbortController()
  const cuts = new Set<() => void>()
  const money = callMoney(account, dialect.remembered, () => policy().refuseContext !== null)
  const held = heldCalls<SetAside>({ account, authority, waitMs: parts.heldMs, isPaused: () => paused !== null })

  const notice = (code: string, level: 'warning' | 'error', message: string) => {
    if (noticed.has(code)) return
    noticed.add(code)
    account.note({ type: 'notice', body: { level, code, message } })
  }

  async function make(body: Buffer, from: IncomingMessage, response: ServerResponse, endpoint: Endpoint): Promise<void> {
    const { denied, refuseModel } = policy()
    const result = dialect.screen(body, endpoint, { allow: terms.allow, denied })
    if (!result.ok) {
      if (result.answer.kind === 'refused') refusal = { why: 'rules', agent: agentOf(from.headers) }
      return answer(response, result.answer)
    }
    const { model } = result.request
    const { allow, upstream } = terms
    const against =
      refuseModel(model) ??
      (upstream.seller === 'reseller' ? refuseVariant(model, { capped: account.capped, allow, policy: policy() }) : null)
    if (against !== null) return refuseByRules(agentOf(from.headers), response, 'model_denied', against)
    await dial(result.request, from, response, endpoint)
  }

  async function dial(request: Screened, from: IncomingMessage, response: ServerResponse, endpoint: Endpoint) {
    while (paused !== null && !response.destroyed) await orGone(paused.promise, response)
    if (response.destroyed || closing.signal.aborted) return response.destroy()
    const { upstream, allow } = terms
    if (books.broken) return answer(response, unwritable)
    let credential: Authorised
    try {
      credential = await upstream.authorise()
    } catch (error) {
      if (!(error instanceof Failure)) throw error
      const sentence = error.hint === undefined ? error.message : `${error.message}. ${error.hint}`
      refusal = { why: 'credential', agent: agentOf(from.headers) }
      notice('credential_missing', 'error', sentence)
      return answer(response, refused(sentence))
    }
    if (response.destroyed) return

    const agent = agentOf(from.headers)
    const about = { provider: upstream.name, model: request.model, agent }
    const { judgesSpending, refuseContext } = policy()
    const tooLong = refuseContext?.(money.contextTokens(request)) ?? null
    if (tooLong !== null) return refuseByRules(agent, response, 'context_denied', tooLong)
    if (terms.rates !== undefined && endpoint.costs) {
      const tooMany = await parts.rates.admit(terms.rates, leavingOf(response))
      if (response.destroyed) return
      if (tooMany !== null) return refuseByRules(agent, response, 'rate_reached', tooMany)
    }
    if (endpoint.costs && judgesSpending) {
      const verdict = await authority.judge(
        spendAction({ ...about, neededNanos: money.needed(request, upstream) }, account),
        () => leavingOf(response),
      )
      if (response.destroyed) return
      if (!verdict.allow) return refuseByRules(agent, response, 'spend_denied', verdict.why)
    }
    // It may have been paused while it waited.
    while (paused !== null && !response.destroyed) await orGone(paused.promise, response)
    if (response.destroyed || closing.signal.aborted) return response.destroy()
    // The reservation is written at once, so no other call can take what this one was promised.
    let set: SetAside | null = null
    if (endpoint.costs) {
      try {
        set = money.setAside(request, upstream, agent)
      } catch (error) {
        if (books.broken) return answer(response, unwritable)
        throw error
      }
      if (set !== null && authority.holdsGrants) authority.use(shortAction({ ...about, neededNanos: 0 }, account))
      let asked: Refusal | null = null
      if (
        set === null &&
        (terms.spend === 'ask' || account.short(money.needed(request, upstream), agent).some(({ asks }) => asks))
      ) {
        const wish = {
          ...about,
          neededNanos: money.needed(request, upstream),
          reserve: () => money.setAside(request, upstream, agent),
        }
        const outcome = await held.hold(wish, leavingOf(response))
        if ('refused' in outcome) asked = outcome
        else set = outcome
      }
      if (set === null) {
        const needed = money.needed(request, upstream)
        const short = account.short(needed, agent)
        const sentence = `${budgetSentence(parts.alone ? null : session, account.lease, short, needed)}${asked === null ? '' : ` (${asked.refused})`}`
        refusal = { why: asked?.asked === true ? 'asked' : 'budget', agent }
        notice('budget_used_up', 'warning', sentence)
        return answer(response, refused(sentence))
      }
    }
    if (endpoint.costs && refusal?.agent === agent) refusal = null
    const startedAt = now()
    const dialled = () => {
      const { key, scrubber } = credential
      const sent = dialect.outgoing({ request, endpoint, from: from.headers, allow, key }, set?.reserved.maxTokens ?? null)
      return forward({ dialect, upstream, request: sent, scrubber, response, cuts })
    }
    const carriedOut = async () => {
      try {
        await set?.reserved.safe
      } catch {
        return answer(response, unwritable)
      }
      let outcome = costless(0)
      try {
        if (response.destroyed || closing.signal.aborted) response.destroy()
        else outcome = await dialled()
      } finally {
        // Where nothing was sent, what was set aside goes back.
        if (set !== null) book(request, upstream, set, { outcome, durationMs: now() - startedAt })
      }
      if (outcome.credentialRefused) {
        refusal = { why: 'credential', agent }
        notice('credential_refused', 'error', `Provider "${upstream.name}" refused the credential that Anchorhold sent`)
      }
      if (set !== null) held.retry()
    }
    const entry = carriedOut().finally(() => open.delete(entry))
    open.add(entry)
    await entry
  }

  function book(request: Screened, upstream: Upstream, set: SetAside, ended: { outcome: Outcome; durationMs: number }): void {
    const tokens = money.book(request, upstream, set, ended)
    if (terms.rates !== undefined) parts.rates.used(terms.rates.actor, tokens)
  }

  /** Aborted when whoever called is gone or the window closes. Made only where something waits: it costs as much as half a call. */
  function leavingOf(response: ServerResponse): AbortSignal {
    const gone = new AbortController()
    response.once('close', () => gone.abort())
    return AbortSignal.any([gone.signal, closing.signal])
  }
  function refuseByRules(agent: string | undefined, response: ServerResponse, code: string, sentence: string): void {
    refusal = { why: 'rules', agent }
    notice(code, 'warning', sentence)
    answer(response, refused(sentence))
  }
  /** Made ready when it changes. */
  function policy(): ModelPolicy {
    const { policy } = authority
    if (policy !== inForce.of) inForce = { of: policy, ready: modelPolicy(policy) }
    return inForce.ready
  }

  return {
    price: held.price,
    retry: held.retry,
    make,
    takeRefusal() {
      const taken = refusal?.why ?? null
      refusal = null
      return taken
    },
    update(next) {
      terms = next ?? terms
      noticed = new Set()
    },
    pause() {
      paused ??= Promise.withResolvers<void>()
    },
    resume() {
      paused?.resolve()
      paused = null
      held.retry()
    },
    async quiet() {
      while (open.size > 0) await Promise.allSettled(open)
    },
    abort() {
      closing.abort()
      for (const cut of [...cuts]) cut()
      paused?.resolve()
      paused = null
    },
  }
}

/** Waits for either; a listener is not left behind. */
function orGone(promise: Promise<void>, response: ServerResponse): Promise<void> {
  const { promise: gone, resolve } = Promise.withResolvers<void>()
  response.once('close', resolve)
  return Promise.race([promise, gone]).finally(() => response.off('close', resolve))
}
