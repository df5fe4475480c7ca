import { isActivity } from '@anchorhold/core/activity'
import type { Event } from '@anchorhold/protocol/events'
import type { Session } from '@anchorhold/protocol/sessions'

/** A session as it is shown: what the daemon last said of it, and what events have told since. */
export type SessionRow = Session & {
  /** The number that the session had come to when the daemon said so; left out where no event has been heard since. */
  readonly said_at?: number
}

export type SessionList = {
  readonly sessions: readonly SessionRow[]
  readonly more: boolean
  /** Where the next page begins; left out where nothing but the first was fetched, and its oldest row tells. */
  readonly before?: number
}

/** What can be told without the daemon, from events of the session in their order. */
export function patched(row: SessionRow, events: readonly Event[]): SessionRow {
  const last = events.at(-1)
  if (last === undefined || row.last_seq >= last.seq) return row
  const state = events.findLast((event) => event.type === 'session.state')
  return {
    ...row,
    said_at: row.said_at ?? row.last_seq,
    last_seq: last.seq,
    active_at: Math.max(row.active_at, events.findLast(isActivity)?.at ?? 0),
    ...(state === undefined ? {} : { state: state.body.to, why: state.body.why }),
  }
}

/** What is shown once the daemon has said how a session stands. An answer that is older than another one says nothing new; one that
 *  events have overtaken says all that they do not tell. */
export function merged(known: SessionRow | undefined, said: Session): SessionRow {
  if (known === undefined || said.last_seq >= known.last_seq) return said
  if (said.last_seq < (known.said_at ?? known.last_seq)) return known
  const { last_seq, active_at, state, why } = known
  return { ...said, said_at: said.last_seq, last_seq, active_at, state, why }
}

type Page = { readonly sessions: readonly Session[]; readonly more: boolean }
export type Refetched = {
  /** The list when the page was asked for, and now. */
  readonly asked: SessionList | undefined
  readonly now: SessionList | undefined
  readonly page: Page
  /** Sessions that are shown whatever page they are on. */
  readonly beside: readonly Session[]
  /** What is known of a session now, wherever it is shown. */
  readonly knownOf: (id: string) => SessionRow | undefined
  readonly archived: boolean
}

/** A list that was fetched once more. What came meanwhile stays, and so do pages that somebody had asked for. */
export function refetched({ asked, now, page, beside, knownOf, archived }: Refetched): SessionList {
  const fetched = new Map([...beside, ...page.sessions].map((row) => [row.id, merged(knownOf(row.id), row)]))
  const before = new Set(asked?.sessions.map(({ id }) => id))
  const oldest = page.sessions.at(-1)?.active_at ?? 0
  const rest = (now?.sessions ?? []).filter(
    (row) => !fetched.has(row.id) && (!before.has(row.id) || (page.more && row.active_at < oldest)),
  )
  const beyond = page.more && rest.some(({ active_at: at }) => at < oldest)
  return {
    sessions: [...fetched.values(), ...rest]
      .filter(({ archived_at: at }) => (at !== null) === archived)
      .sort((a, b) => b.active_at - a.active_at),
    more: beyond ? (now?.more ?? page.more) : page.more,
    before: beyond ? Math.min(now?.before ?? oldest, oldest) : oldest,
  }
}
