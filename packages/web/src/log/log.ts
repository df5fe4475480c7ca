import type { Event } from '@anchorhold/protocol/events'

/** A run of a session's events without a gap: what the page holds of its log. */
export type Log = {
  readonly events: readonly Event[]
  /** The number of the first event held or of the one behind the end, and that of the last. */
  readonly first: number
  readonly last: number
  /** Whether there are earlier ones. */
  readonly earlier: boolean
  /** Whether there are later ones that are not held: the run was opened somewhere in the middle. */
  readonly later: boolean
}

type Page = { readonly events: readonly Event[]; readonly more: boolean }

/** The newest page of a log. */
export const newest = ({ events, more }: Page): Log => ({
  events,
  first: events[0]?.seq ?? 1,
  last: events.at(-1)?.seq ?? 0,
  earlier: more,
  later: false,
})

/** A page from the middle; `lastSeq` is the number that the session has come to. */
export const somewhere = (page: Page, lastSeq: number): Log => {
  const log = newest(page)
  return { ...log, later: log.last < lastSeq }
}

export function withEarlier(log: Log, { events, more }: Page): Log {
  const fresh = events.filter(({ seq }) => seq < log.first)
  return { ...log, events: [...fresh, ...log.events], first: fresh[0]?.seq ?? log.first, earlier: more }
}

export function withLater(log: Log, { events, more }: Page): Log {
  return { ...append(log, events), later: more }
}

/** What the stream brought. Null when something is missing between it and the run, so that it must be asked for. */
export function withNews(log: Log, news: readonly Event[]): Log | null {
  if (log.later) return log
  const fresh = news.filter(({ seq }) => seq > log.last)
  return fresh.some(({ seq }, index) => seq !== log.last + 1 + index) ? null : append(log, fresh)
}

function append(log: Log, events: readonly Event[]): Log {
  const fresh = events.filter(({ seq }) => seq > log.last)
  return fresh.length === 0 ? log : { ...log, events: [...log.events, ...fresh], last: fresh.at(-1)!.seq }
}

/** Lets go of the oldest events, for a page that stays open for days and is read at its end. */
export function trimmed(log: Log, eventsMax: number): Log {
  if (log.events.length <= eventsMax * 1.5) return log
  const events = log.events.slice(-eventsMax)
  return { ...log, events, first: events[0]!.seq, earlier: true }
}
