import { leftNanos, leftOf } from '@anchorhold/core/ledger'
import type { RequestAnswer } from '@anchorhold/protocol/events'
import { Failure } from '@anchorhold/protocol/failures'
import type { RequestId } from '@anchorhold/protocol/ids'
import type { Price } from '@anchorhold/protocol/link'
import type { Nanos } from '@anchorhold/protocol/money'
import type { Account } from '../../books.ts'

/** Who settled a request, and how. */
export type Answered = { readonly answer: RequestAnswer; readonly actor: string; readonly door: string }

/** A call that the lease does not hold. */
export type CallToHold<T> = {
  readonly model: string
  /** All that it may cost. */
  readonly neededNanos: Nanos
  /** The sub-agent that makes it, if one does. */
  readonly agent: string | undefined
  /** Sets that aside; null when the lease still does not hold it. Throws when the disk fails. */
  readonly reserve: () => T | null
}
export type Refusal = { readonly refused: string }

/** Calls of one session that wait for a person to pay for them. Nothing is set aside for a call as long as it waits. */
export type HeldCalls<T> = {
  /** Asks for the money, and waits for it. Aborting the signal takes the question back. */
  hold(call: CallToHold<T>, signal: AbortSignal): Promise<T | Refusal>
  /** What the budget and the nodes above must be for that call to go on now. */
  price(request: RequestId): Price
  /** The first answer counts. Whoever allows it has raised the budget to its price before. */
  answer(request: RequestId, answered: Answered): void
  /** There may be more money than before: calls go on in the order they came, as far as it goes. */
  retry(by: Answered): void
}

export type HeldCallsOptions = {
  readonly account: Account
  readonly waitMs: number
  readonly newRequest: () => RequestId
  readonly isPaused: () => boolean
}

type Held<T> = CallToHold<T> & {
  readonly id: RequestId
  readonly end: (outcome: T | Refusal) => void
  /** Somebody said yes, and only a pause keeps it. */
  allowed: boolean
}

export const withdrawn = (reason: string): Answered => ({
  answer: { decision: 'withdrawn', reason },
  actor: 'gate',
  door: 'none',
})

export function heldCalls<T>({ account, waitMs, newRequest, isPaused }: HeldCallsOptions): HeldCalls<T> {
  /** In the order they came. */
  const calls: Held<T>[] = []

  function settle(call: Held<T>, { answer, actor, door }: Answered): void {
    if (!call.allowed) account.note({ type: 'request.answered', body: { id: call.id, answer, actor, door } })
  }
  function end(call: Held<T>, outcome: T | Refusal): void {
    const at = calls.indexOf(call)
    if (at === -1) return
    calls.splice(at, 1)
    call.end(outcome)
  }
  /** Lets a call go on if its lease holds it now. */
  function goOn(call: Held<T>, by: Answered): boolean {
    let set: T | null
    try {
      set = call.reserve()
    } catch (error) {
      end(call, { refused: error instanceof Error ? error.message : String(error) })
      return true
    }
    if (set === null) return false
    settle(call, by)
    end(call, set)
    return true
  }
  function openCall(id: RequestId): Held<T> {
    const call = calls.find((one) => one.id === id && !one.allowed)
    if (call === undefined) throw new Failure('conflict', `Request "${id}" is no longer open`)
    return call
  }
  function priceOf({ neededNanos, agent }: Held<T>): Price {
    const { capNanos, spentNanos, reservedNanos } = account.lease
    const raises = account.short(neededNanos, agent).map(({ node, span, sum }) => ({
      node,
      span,
      period: sum.period,
      cap_nanos: sum.spentNanos + sum.reservedNanos + neededNanos,
    }))
    return { budget_nanos: capNanos === null ? null : Math.max(capNanos, spentNanos + reservedNanos + neededNanos), raises }
  }
  const isPaid = (call: Held<T>) => {
    const { budget_nanos, raises } = priceOf(call)
    return raises.length === 0 && (budget_nanos === null || budget_nanos <= account.lease.capNanos!)
  }

  return {
    hold(wanted, signal) {
      const id = newRequest()
      account.note({ type: 'request.opened', body: { id, call: null, action: actionOf(wanted, account) } })
      const { promise, resolve } = Promise.withResolvers<T | Refusal>()
      const giveUp = (reason: string) => {
        if (!calls.includes(call)) return
        settle(call, withdrawn(reason))
        end(call, { refused: reason })
      }
      const leave = () => giveUp('The agent no longer waits for it')
      const timer = setTimeout(() => !call.allowed && giveUp(`Nobody answered within ${Math.round(waitMs / 1000)} s`), waitMs)
      const call: Held<T> = {
        ...wanted,
        id,
        allowed: false,
        end(outcome) {
          clearTimeout(timer)
          signal.removeEventListener('abort', leave)
          resolve(outcome)
        },
      }
      calls.push(call)
      if (signal.aborted) leave()
      else signal.addEventListener('abort', leave, { once: true })
      return promise
    },
    price: (request) => priceOf(openCall(request)),
    answer(request, answered) {
      const call = openCall(request)
      if (answered.answer.decision !== 'allow') {
        settle(call, answered)
        const { reason } = answered.answer
        return end(call, { refused: `${answered.actor} denied it${reason === undefined ? '' : `: ${reason}`}` })
      }
      if (isPaused() && isPaid(call)) {
        settle(call, answered)
        call.allowed = true
        return
      }
      if (!goOn(call, answered))
        throw new Failure('wrong_state', `Request "${request}" needs more than it did: others have spent since`)
    },
    retry(by) {
      if (isPaused()) return
      for (const call of calls.filter(({ allowed }) => allowed)) goOn(call, by)
      for (const call of [...calls]) if (!goOn(call, by)) return
    },
  }
}

/** What is left and of how much: of the session's own budget, or of the node above it that holds the least. */
function actionOf({ model, neededNanos, agent }: CallToHold<unknown>, account: Account) {
  const { lease } = account
  const own = leftNanos(lease)
  const [least] = account
    .short(neededNanos, agent)
    .map(({ sum }) => ({ left: leftOf(sum) ?? 0, cap: sum.capNanos ?? 0 }))
    .filter(({ left }) => own === null || left < own)
    .toSorted((a, b) => a.left - b.left)
  const { left, cap } = least ?? { left: own ?? 0, cap: lease.capNanos ?? 0 }
  return { kind: 'spend' as const, model, needed_nanos: neededNanos, left_nanos: left, budget_nanos: cap }
}
