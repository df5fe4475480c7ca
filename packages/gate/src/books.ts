import { afford, type Lease, newLease, recap, reserve, settle, type Wish } from '@anchorhold/core/ledger'
import type { Outbox } from '@anchorhold/link/outbox'
import { type EventBody, eventBodies, type NewEvent, parseNewEvent } from '@anchorhold/protocol/events'
import type { RequestId, SessionId } from '@anchorhold/protocol/ids'
import { type LinkRecord, Reservation } from '@anchorhold/protocol/link'
import type { Nanos } from '@anchorhold/protocol/money'
import type { KeptLease, Leases } from './leases.ts'

/** What sessions may spend, have spent and have set aside. Whatever happens to the gate, it all follows from its outbox and
 *  the leases that it kept.
 *  Invariant: a call is dialled only after its reservation is written; a reservation is settled exactly once. */
export type Books = {
  /** Leases that a gate before this one kept and that are not open. */
  readonly kept: ReadonlyMap<SessionId, KeptLease>
  /** The disk failed: nothing is written down any more, so nothing may be spent. */
  readonly broken: boolean
  /** Books every call that a gate before this one left open at all that was set aside for it, and says how many. What it had
   *  asked people for is taken back: the calls that waited are gone. */
  recover(): Promise<number>
  open(session: SessionId, money: Money): Account
  /** Revokes the session's lease. */
  close(session: SessionId): Promise<void>
  flush(): Promise<void>
}

/** A session's money, as somebody knows it who has seen the gate's records up to one. */
export type Money = Pick<KeptLease, 'budget_nanos' | 'spent_nanos' | 'spent_to' | 'closed'>
export type ServedOn = Pick<KeptLease, 'folder' | 'provider' | 'rules' | 'paused' | 'spend'>

/** What a call may cost, written down. */
export type Reserved = {
  readonly call: string
  readonly nanos: Nanos
  readonly maxTokens: number
  /** Resolves when it is on the disk: not before may any of the answer be passed on. */
  readonly safe: Promise<void>
}

/** One session's part of the books. */
export type Account = {
  readonly lease: Lease
  /** The last record that was written of this session. */
  readonly last: number
  /** Sets the price of a call aside and writes that down; null when the lease does not hold it. Throws when the disk fails. */
  reserve(wish: Wish, about: Omit<Reservation, 'call' | 'nanos'>): Reserved | null
  /** Books what the call cost. When that cannot be written, the books are broken and the reservation stands. */
  settle(reserved: Reserved, usage: Omit<EventBody<'usage'>, 'call'>): void
  note(event: NewEvent): void
  recap(capNanos: Nanos | null): void
  /** What the daemon knows. What was spent here is never forgotten. */
  update(money: Money): void
  /** Keeps the lease, with these terms or those it had, for a gate that comes after this one. */
  save(terms?: ServedOn): Promise<void>
}

export type BooksParts = {
  readonly outbox: Outbox
  readonly leases: Leases
  readonly newCall: () => string
  /** Resolves when what is being done now is done, and soon after it. What is due by then goes to the disk together.
   *  Where so many calls are open, others may be about to be. */
  readonly afterThis: (openCalls: number) => Promise<void>
  readonly soon: () => Promise<void>
  readonly onBroken: (error: Error) => void
}

type Entry = { readonly n: number; readonly nanos: Nanos; readonly exceeds: boolean }
type OpenCall = Reservation & { readonly n: number; readonly session: SessionId }
/** An account with what only the books need to know of it. */
type Held = { readonly account: Account; savedTo: number; readonly close: () => Promise<void> }

const nothing = { input: 0, output: 0, cache_read: 0, cache_write: 0 }

export async function openBooks({ outbox, leases, newCall, afterThis, soon, onBroken }: BooksParts): Promise<Books> {
  const openCalls = new Map<string, OpenCall>()
  /** What each session's calls cost, by record, as long as the record is in the outbox. */
  const booked = new Map<SessionId, Entry[]>()
  /** Requests that nobody has settled, and the record that each was opened with. */
  const openRequests = new Map<string, { readonly n: number; readonly session: SessionId }>()
  const lastOf = new Map<SessionId, number>()
  const held = new Map<SessionId, Held>()
  const kept = new Map((await leases.list()).map((lease) => [lease.session, lease]))
  let broken = false
  let dialling: Promise<void> | null = null
  let flushDue = false

  for (const { n, session, type, body } of await outbox.read(0, Infinity)) {
    lastOf.set(session, n)
    if (type === 'reservation') {
      const reservation = Reservation.parse(body)
      openCalls.set(reservation.call, { ...reservation, n, session })
    } else if (type === 'usage') {
      const { call = '', cost_nanos } = eventBodies.usage.parse(body)
      enter(session, n, call, cost_nanos)
    } else if (type === 'request.opened' || type === 'request.answered') askedOf(session, n, parseNewEvent(type, body))
  }

  function askedOf(session: SessionId, n: number, event: NewEvent): void {
    if (event.type === 'request.opened') openRequests.set(event.body.id, { n, session })
    if (event.type === 'request.answered') openRequests.delete(event.body.id)
  }

  /** A call is in the books. */
  function enter(session: SessionId, n: number, call: string, nanos: Nanos): void {
    const reservation = openCalls.get(call)
    openCalls.delete(call)
    const entries = booked.get(session) ?? []
    booked.set(session, entries)
    entries.push({ n, nanos, exceeds: reservation !== undefined && nanos > reservation.nanos })
  }

  function breakOn(error: unknown): void {
    if (broken) return
    broken = true
    onBroken(error instanceof Error ? error : new Error(String(error)))
  }

  function append(session: SessionId, entry: NewEvent | LinkRecord): number {
    try {
      const n = outbox.append(session, entry)
      lastOf.set(session, n)
      return n
    } catch (error) {
      breakOn(error)
      throw error
    }
  }

  async function flush(): Promise<void> {
    try {
      await outbox.flush()
    } catch (error) {
      breakOn(error)
      throw error
    }
  }

  /** What is written is safe from the gate's own death; its way to the disk may be shared with others. */
  function flushSoon(): void {
    if (flushDue) return
    flushDue = true
    void soon().then(() => {
      flushDue = false
      return flush().catch(() => {})
    })
  }

  /** The dial goes first: the disk and the upstream work at the same time. */
  function flushAfterDial(): Promise<void> {
    if (dialling !== null) return dialling
    dialling = afterThis(openCalls.size).then(() => {
      dialling = null
      return flush()
    })
    dialling.catch(() => {})
    return dialling
  }

  function spentAfter(session: SessionId, n: number): { readonly nanos: Nanos; readonly exceeds: boolean } {
    const later = (booked.get(session) ?? []).filter((entry) => entry.n > n)
    return { nanos: later.reduce((sum, entry) => sum + entry.nanos, 0), exceeds: later.some(({ exceeds }) => exceeds) }
  }

  function known({ budget_nanos, spent_nanos, spent_to, closed }: Money, session: SessionId): Lease {
    const { nanos, exceeds } = spentAfter(session, spent_to)
    const lease = newLease(budget_nanos, spent_nanos + nanos)
    return { ...lease, closed: closed || (budget_nanos !== null && exceeds) }
  }

  function hold(session: SessionId, money: Money): Held {
    let lease = known(money, session)
    let terms: ServedOn | null = kept.get(session) ?? null
    let saving: Promise<void> = Promise.resolve()
    let revoked = false

    async function saveNow(): Promise<void> {
      if (revoked || terms === null) return
      const { folder, provider, rules, paused, spend } = terms
      const { capNanos, spentNanos, closed } = lease
      const money = { budget_nanos: capNanos, spent_nanos: spentNanos, spent_to: outbox.written, closed }
      // What comes after this sum is needed with it, from before it is kept.
      one.savedTo = Math.min(one.savedTo, money.spent_to)
      // The sum must not go further than the records that it is made of.
      await flush()
      await leases.put({ session, folder, provider, rules, paused, spend, ...money })
      one.savedTo = money.spent_to
    }

    const account: Account = {
      get lease() {
        return lease
      },
      get last() {
        return lastOf.get(session) ?? 0
      },
      reserve(wish, about) {
        const affordable = afford(lease, wish)
        const next = affordable === null ? null : reserve(lease, affordable.nanos)
        if (affordable === null || next === null) return null
        const reservation = { call: newCall(), nanos: affordable.nanos, ...about }
        const n = append(session, { type: 'reservation', body: reservation })
        openCalls.set(reservation.call, { ...reservation, n, session })
        lease = next
        const safe = flushAfterDial()
        return { call: reservation.call, ...affordable, safe }
      },
      settle({ call, nanos }, usage) {
        lease = settle(lease, nanos, usage.cost_nanos)
        try {
          enter(session, append(session, { type: 'usage', body: { call, ...usage } }), call, usage.cost_nanos)
        } catch {
          return
        }
        flushSoon()
      },
      note(event) {
        try {
          askedOf(session, append(session, event), event)
        } catch {
          return
        }
        flushSoon()
      },
      recap(capNanos) {
        lease = recap(lease, capNanos)
      },
      update(told) {
        const spentNanos = Math.max(lease.spentNanos, known(told, session).spentNanos)
        lease = { ...lease, spentNanos }
        if (told.budget_nanos !== lease.capNanos) lease = recap(lease, told.budget_nanos)
      },
      save(next) {
        terms = next ?? terms
        saving = saving.catch(() => {}).then(saveNow)
        return saving
      },
    }
    const one: Held = {
      account,
      savedTo: kept.get(session)?.spent_to ?? Infinity,
      async close() {
        revoked = true
        await saving.catch(() => {})
        await leases.remove(session)
      },
    }
    return one
  }

  // A record may go when its call is settled and its cost is in a lease that was kept, or in the daemon's log for good.
  outbox.onTrim(async (n) => {
    const behind = () => [...held.values()].filter(({ account, savedTo }) => account.last > savedTo)
    await Promise.allSettled(behind().map(({ account }) => account.save()))
    let free = n
    for (const call of openCalls.values()) free = Math.min(free, call.n - 1)
    for (const request of openRequests.values()) free = Math.min(free, request.n - 1)
    for (const { savedTo } of behind()) free = Math.min(free, savedTo)
    for (const [session, { spent_to }] of kept) if ((lastOf.get(session) ?? 0) > spent_to) free = Math.min(free, spent_to)
    for (const [session, entries] of booked) {
      const rest = entries.filter((entry) => entry.n > free)
      if (rest.length > 0) booked.set(session, rest)
      else booked.delete(session)
    }
    for (const [session, last] of lastOf) if (last <= free && !held.has(session)) lastOf.delete(session)
    return free
  })

  return {
    kept,
    get broken() {
      return broken
    },
    async recover() {
      const left = [...openCalls.values()]
      for (const { session, call, nanos, n: _, ...about } of left) {
        const usage = { ...about, tokens: nothing, cost_nanos: nanos, estimated: true, status: 0, duration_ms: 0 }
        enter(session, append(session, { type: 'usage', body: { call, ...usage } }), call, nanos)
      }
      const asked = [...openRequests]
      for (const [id, { session }] of asked) {
        const answer = { decision: 'withdrawn' as const, reason: 'The gate was started anew' }
        const event = { type: 'request.answered' as const, body: { id: id as RequestId, answer, actor: 'gate', door: 'none' } }
        askedOf(session, append(session, event), event)
      }
      if (left.length + asked.length > 0) await flush()
      return left.length
    },
    open(session, money) {
      const one = hold(session, money)
      kept.delete(session)
      held.set(session, one)
      return one.account
    },
    async close(session) {
      const one = held.get(session)
      held.delete(session)
      kept.delete(session)
      await (one?.close() ?? leases.remove(session))
    },
    flush,
  }
}
