import type { Event, NewEvent } from '@anchorhold/protocol/events'
import type { NewHouseEvent } from '@anchorhold/protocol/house'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { Hub } from './hub.ts'
import type { Store, Tables } from './store/store.ts'

/** What a transaction is made of. */
export type Writes = { readonly store: Store; readonly hub: Pick<Hub, 'stored'>; readonly now: () => number }

/** The tables of a transaction, and the two logs. */
export type Tx = {
  readonly store: Tables
  /** Stores events of the daemon's own in a session's log. Who watches hears of them when the transaction is committed. */
  record(session: SessionId, ...events: readonly NewEvent[]): void
  /** Stores an event in the house's own log. */
  note(event: NewHouseEvent): void
}

/** No process is told or asked anything while a transaction is open, and no other one begins within it. */
type Within<P> = Tx & Omit<P, 'store' | 'hub' | 'keepers' | 'gate' | 'sources' | 'doctor'>

/** Reads and writes in one step: what decides whether something is written is read in the step that writes it.
 *  Invariant: what is recorded reaches a watcher once, in order, after the commit; nothing of it does when the step is rolled back. */
export function transaction<P extends Writes, T>(parts: P, work: (tx: Within<P>) => T): T {
  const { store, hub, now } = parts
  const recorded: Event[] = []
  const done = store.atomically(() =>
    work({
      ...parts,
      record(session, ...events) {
        const at = now()
        const entries = events.map((event) => ({ n: null, at, event }))
        recorded.push(...store.events.append(session, 'daemon', entries))
      },
      note: (event) => store.house.append(now(), event),
    } satisfies P & Tx),
  )
  if (recorded.length > 0) hub.stored(recorded)
  return done
}
