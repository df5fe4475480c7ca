import { refusalWords } from '@anchorhold/core/authority/words'
import { leftNanos, leftOf } from '@anchorhold/core/ledger'
import type { RequestId } from '@anchorhold/protocol/ids'
import type { Price } from '@anchorhold/protocol/gate-commands'
import type { Nanos } from '@anchorhold/protocol/money'
import type { SpendAction } from '@anchorhold/protocol/actions'
import type { SessionAuthority } from '../../authority.ts'
import type { Account } from '../../money/account.ts'
import { shortSentence } from '../../money/warnings.ts'

/** A call that the lease does not hold. */
export type CallToHold<T> = {
  readonly provider: string
  readonly model: string
  /** All that it may cost. */
  readonly neededNanos: Nanos
  /** The sub-agent that makes it, if one does. */
  readonly agent: string | undefined
  /** Sets that aside; null when the lease still does not hold it. Throws when the disk fails. */
  readonly reserve: () => T | null
}
/** `asked`: the request stays open, and can be answered when nobody waits for it any more. */
export type Refusal = { readonly refused: string; readonly asked: boolean }

/** Calls of one session that wait for a person to pay for them. Nothing is set aside for a call as long as it waits. */
export type HeldCalls<T> = {
  /** Asks for the money, and waits for it. Aborting the signal ends the waiting, and leaves what was asked open. */
  hold(call: CallToHold<T>, signal: AbortSignal): Promise<T | Refusal>
  /** What the budget and the nodes above must be for that call to go on now; null where none waits for that request. */
  price(request: RequestId): Price | null
  /** There may be more money than before: calls go on in the order they came, as far as it goes. */
  retry(): void
}

export type HeldCallsOptions = {
  readonly account: Account
  readonly authority: Pick<SessionAuthority, 'open' | 'use'>
  readonly waitMs: number
  readonly isPaused: () => boolean
}

type Asking = Awaited<ReturnType<SessionAuthority['open']>>
type Held<T> = CallToHold<T> & {
  readonly ended: PromiseWithResolvers<T | Refusal>
  asking: Asking | null
  /** Somebody said yes, and only a pause keeps it. */
  allowed: boolean
}

export function heldCalls<T>({ account, authority, waitMs, isPaused }: HeldCallsOptions): HeldCalls<T> {
  /** In the order they came. */
  const calls: Held<T>[] = []

  function end(call: Held<T>, outcome: T | Refusal): void {
    const at = calls.indexOf(call)
    if (at === -1) return
    calls.splice(at, 1)
    call.ended.resolve(outcome)
  }
  /** Lets a call go on if its lease holds it now. */
  function goOn(call: Held<T>): boolean {
    let set: T | null
    try {
      set = call.reserve()
    } catch (error) {
      call.asking?.leave('gave up')
      end(call, { refused: error instanceof Error ? error.message : String(error), asked: false })
      return true
    }
    if (set === null) return false
    call.asking?.takeBack('There is money for it again')
    authority.use(shortAction(call, account))
    end(call, set)
    return true
  }

  async function ask(call: Held<T>): Promise<void> {
    const short = account.short(call.neededNanos, call.agent)
    const raises = pricesOf(call).raises
    const asking = await authority.open({
      action: shortAction(call, account),
      call: null,
      why: short[0] === undefined ? "This session's budget does not hold it" : shortSentence(short[0]),
      ...(raises.length === 0 ? {} : { raises }),
    })
    // It went on, or whoever made it went away, while that was written down.
    if (!calls.includes(call)) return asking.leave('gave up')
    call.asking = asking
    const answer = await asking.answered
    call.asking = null
    if (!calls.includes(call)) return
    if (answer.decision !== 'allow') return end(call, { refused: refusalWords(answer), asked: false })
    call.allowed = true
    if (isPaused() || goOn(call)) return
    // Others have spent since what was allowed.
    call.allowed = false
    return ask(call)
  }

  function pricesOf({ neededNanos, agent }: Held<T>): Price {
    const { capNanos, spentNanos, reservedNanos } = account.lease
    const raises = account.short(neededNanos, agent).map(({ node, span, sum }) => ({
      node,
      span,
      period: sum.period,
      cap_nanos: sum.spentNanos + sum.reservedNanos + neededNanos,
    }))
    return { budget_nanos: capNanos === null ? null : Math.max(capNanos, spentNanos + reservedNanos + neededNanos), raises }
  }

  return {
    async hold(wanted, signal) {
      const call: Held<T> = { ...wanted, ended: Promise.withResolvers(), asking: null, allowed: false }
      calls.push(call)
      const leave = (refused: string, how: 'gave up' | 'still wants it' = 'gave up') => {
        call.asking?.leave(how)
        end(call, { refused, asked: !call.allowed })
      }
      const gone = () => leave('The agent no longer waits for it')
      const timer = setTimeout(() => !call.allowed && leave('Nobody has answered yet', 'still wants it'), waitMs)
      signal.addEventListener('abort', gone, { once: true })
      void ask(call).catch((error: unknown) => leave(error instanceof Error ? error.message : String(error)))
      if (signal.aborted) gone()
      try {
        return await call.ended.promise
      } finally {
        clearTimeout(timer)
        signal.removeEventListener('abort', gone)
      }
    },
    price(request) {
      const call = calls.find(({ asking }) => asking?.request === request)
      return call === undefined ? null : pricesOf(call)
    },
    retry() {
      if (isPaused()) return
      for (const call of calls.filter(({ allowed }) => allowed)) if (!goOn(call)) askAnew(call)
      for (const call of [...calls]) if (!goOn(call)) return
    },
  }

  function askAnew(call: Held<T>): void {
    call.allowed = false
    void ask(call).catch((error: unknown) =>
      end(call, { refused: error instanceof Error ? error.message : String(error), asked: false }),
    )
  }
}

/** The same as something that the money does not hold. */
export const shortAction = (...about: Parameters<typeof spendAction>): SpendAction => ({ ...spendAction(...about), short: true })

/** What is left and of how much: of the session's own budget, or of the node above it that holds the least. */
export function spendAction(
  { provider, model, neededNanos, agent }: Omit<CallToHold<unknown>, 'reserve'>,
  account: Pick<Account, 'lease' | 'short'>,
): SpendAction {
  const { lease } = account
  const own = leftNanos(lease)
  const [least] = account
    .short(neededNanos, agent)
    .map(({ sum }) => ({ left: leftOf(sum) ?? 0, cap: sum.capNanos ?? 0 }))
    .filter(({ left }) => own === null || left < own)
    .toSorted((a, b) => a.left - b.left)
  const { left, cap } = least ?? { left: own, cap: lease.capNanos }
  return { kind: 'spend', provider, model, needed_nanos: neededNanos, left_nanos: left, budget_nanos: cap }
}
