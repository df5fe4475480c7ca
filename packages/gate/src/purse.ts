import { leftNanos, type Path, reserveAll, strictest } from '@anchorhold/core/ledger'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { Reservation } from '@anchorhold/protocol/link'
import type { Nanos } from '@anchorhold/protocol/money'
import { type Known, namesOf } from './nodes.ts'
import type { OpenCall, Records } from './records.ts'

export type PurseSize = {
  /** The boot of the machine: as long as it lasts, nothing is lost that was written, whatever is killed. */
  readonly boot: string
  readonly nanos: Nanos
}

/** What a session sets aside at once for small calls to come, so that these do not wait for the disk one by one.
 *  Invariant: what the power can take of the records of such calls is in a purse that is on the disk, and that is booked in full then. */
export type SessionPurse = {
  /** Whether it holds what a call may cost, whose reservation is written. Where it does not but could, the next one is on its way to the disk
   *  along with this call. */
  pays(call: PaidCall): boolean
  /** So much of what a call could have cost was left over. */
  settled(call: string, overNanos: Nanos): void
  /** Gives it back, if it was taken by that record: nobody calls for now. */
  rest(takenBy?: number): void
}

type PaidCall = {
  readonly call: string
  readonly nanos: Nanos
  readonly about: Pick<Reservation, 'provider' | 'model' | 'simulated' | 'notional'>
  readonly beganMs: number
}

export type PurseParts = {
  readonly session: SessionId
  /** Null where there are none. */
  readonly size: PurseSize | null
  readonly records: Records
  readonly newCall: () => string
  /** The session's way up, and its sums. */
  readonly wayAt: (atMs: number) => readonly Known[]
  readonly pathOf: (way: readonly Known[]) => Path
  readonly change: (way: readonly Known[], path: Path) => void
  readonly bookAt: (open: OpenCall, costNanos: Nanos) => void
}

/** One is of a minute of UTC, and so of one day and one tick of every node. */
const minuteMs = 60_000
/** A call that may cost more than this share of it waits for the disk: there is time for that while it is answered. */
const smallShare = 0.25
/** It is taken where so many are left, so that hardly anybody has to have it given back. */
const plenty = 20

export function sessionPurse({ session, size, records, newCall, wayAt, pathOf, change, bookAt }: PurseParts): SessionPurse {
  /** `calls` are those under way that it pays for. */
  let purse: { readonly name: string; readonly minute: number; leftNanos: Nanos; readonly calls: Set<string> } | null = null

  function take({ boot, nanos }: PurseSize, { about, beganMs }: PaidCall, minute: number): void {
    const way = wayAt(beganMs)
    const path = pathOf(way)
    const left = leftNanos(strictest(path))
    const next = left !== null && left < plenty * nanos ? null : reserveAll(path, nanos)
    if (next === null) return
    const { provider, model, simulated, notional } = about
    const name = newCall()
    const reservation = { call: name, nanos, provider, model, simulated, notional, boot, began_at: beganMs, ...namesOf(way) }
    try {
      records.reserve(session, reservation, beganMs)
    } catch {
      // The disk failed, and whoever waits for it is told.
      return
    }
    change(way, next)
    purse = { name, minute, leftNanos: nanos, calls: new Set() }
  }

  function rest(takenBy = Infinity): void {
    const open = purse === null ? undefined : records.openCalls.get(purse.name)
    if (open === undefined || open.n > takenBy) return
    purse = null
    try {
      records.giveBack(open.call)
    } catch {
      return
    }
    bookAt(open, 0)
    records.flushSoon()
  }

  return {
    pays(paid) {
      const { call, nanos, beganMs } = paid
      if (size === null || nanos > size.nanos * smallShare) return false
      const minute = Math.floor(beganMs / minuteMs)
      if (purse === null || purse.minute !== minute || purse.leftNanos < nanos) {
        rest()
        take(size, paid, minute)
        return false
      }
      if (!records.isSafe(purse.name)) return false
      purse.leftNanos -= nanos
      purse.calls.add(call)
      return true
    },
    settled(call, overNanos) {
      if (purse?.calls.delete(call)) purse.leftNanos += overNanos
    },
    rest,
  }
}
