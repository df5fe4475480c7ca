import type { Clock } from '@anchorhold/link/clock'
import type { Event } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import { transaction } from '../../transaction.ts'
import type { Delivers, Judges, Parts } from '../parts.ts'
import { effectivePolicy } from '../policy/policy.ts'
import { expire } from './requests.ts'
import { park, tellAskers } from './tell.ts'

/** Does for open and answered requests what nobody has to ask for: those who asked are told, what waits too long is parked, and
 *  what nobody answers in time is closed. */
export interface Inbox {
  /** Something has changed that may concern a request. */
  look(): void
  /** The same, where these events do. */
  heard(events: readonly Event[]): void
  /** Nothing more is done. */
  close(): void
}

/** Longer waits are cut into such pieces: timers hold no more than 24 days. */
const dayMs = 24 * 60 * 60 * 1000
/** How soon it looks again where something went wrong, as on a full disk. */
const retryMs = 1000
const concerns = new Set<Event['type']>(['request.opened', 'request.answered', 'turn.started', 'keeper.started', 'keeper.left'])

export function inbox(parts: Delivers & Judges & Pick<Parts, 'gate' | 'random'>, clock: Clock): Inbox {
  let cancel = () => {}
  let due = false
  let closed = false
  let looking: Promise<void> | null = null

  function look(): void {
    if (due || closed) return
    due = true
    // Once for all that happens in the same turn.
    clock.soon(() => {
      due = false
      looking = (looking ?? Promise.resolve()).then(tend).catch((error: unknown) => {
        parts.log(`requests: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
        if (!closed) cancel = clock.after(retryMs, look)
      })
    })
  }

  async function tend(): Promise<void> {
    if (closed) return
    cancel()
    const { store, keepers, now } = parts
    for (const id of store.requests.overdue(now()))
      transaction(parts, (tx) => {
        const request = tx.store.requests.get(id)
        if (request !== null) expire(tx, request)
      })
    await tellAskers(parts, null)
    let next = Infinity
    const toPark = new Set<SessionId>()
    for (const { session, opened_at, expires_at } of store.requests.waiting()) {
      if (expires_at !== null) next = Math.min(next, expires_at)
      if (!keepers.has(session) || store.sessions.get(session)?.standing.turn !== true) continue
      const parkAt = opened_at + effectivePolicy(parts, session).park_after_ms
      if (parkAt <= now()) toPark.add(session)
      else next = Math.min(next, parkAt)
    }
    await Promise.all([...toPark].map((session) => park(parts, session, 'Nobody has answered yet')))
    if (next !== Infinity && !closed) cancel = clock.after(Math.min(Math.max(next - now(), 1), dayMs), look)
  }

  return {
    look,
    heard(events) {
      if (events.some(({ type }) => concerns.has(type))) look()
    },
    close() {
      closed = true
      cancel()
    },
  }
}
