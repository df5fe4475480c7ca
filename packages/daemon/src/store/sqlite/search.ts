import { type NewEvent, parseNewEvent } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { Database } from 'better-sqlite3'
import type { Store } from '../store.ts'
import { seenIds } from './people.ts'

type Row = { session_id: string; session_name: string; seq: number; at: number; type: string; snippet: string }

const searchedChars = 64 * 1024
const indexedAtOnce = 500

/** Full-text search. Taking a text apart costs more than storing it, so the index follows behind the log, and catches up
 *  before it is asked. */
export function sqliteSearch(db: Database): { readonly search: Store['search']; readonly index: Store['index'] } {
  const indexedTo = db.prepare<[], { pos: number | null }>(`select max(id) as pos from event_text_content`)
  const behind = db.prepare<[number, number], { pos: number; type: string; body: string }>(
    `select pos, type, body from event where pos > ? order by pos limit ?`,
  )
  const insert = db.prepare(`insert into event_text (rowid, text) values (?, ?)`)
  /** What has been looked at, also where there was nothing to index. */
  let reached = 0
  const index = db.transaction(() => {
    const rows = behind.all(Math.max(reached, indexedTo.get()?.pos ?? 0), indexedAtOnce)
    for (const { pos, type, body } of rows) {
      const words = searchable(parseNewEvent(type, JSON.parse(body)))
      if (words !== null) insert.run(pos, words.slice(0, searchedChars))
    }
    const last = rows.at(-1)?.pos
    return { last, more: rows.length === indexedAtOnce }
  })
  const catchUp = (): boolean => {
    const { last, more } = index()
    if (last !== undefined) reached = last
    return more
  }

  type Query = { readonly match: string; readonly session: string | null; readonly seenBy: string | null; readonly limit: number }
  const find = db.prepare<[Query], Row>(`
    select event.session_id, session.name as session_name, event.seq, event.at, event.type,
      snippet(event_text, 0, '«', '»', ' … ', 24) as snippet
    from event_text join event on event.pos = event_text.rowid join session on session.id = event.session_id
    where event_text match @match and (@session is null or event.session_id = @session)
      and (@seenBy is null or event.session_id in ${seenIds})
    order by rank limit @limit`)
  return {
    index: catchUp,
    search({ q, session, seenBy, limit }) {
      const match = asMatch(q)
      // Nothing to look for is no query.
      if (match === '') return []
      while (catchUp());
      return find
        .all({ match, session, seenBy, limit })
        .map(({ session_id, ...rest }) => ({ ...rest, session: session_id as SessionId }))
    },
  }
}

/** Every word must occur, the last one at least as a beginning. Quoted, so that no word is an operator. */
function asMatch(q: string): string {
  const words = q.split(/[\s\0]+/).filter((word) => word !== '')
  return words.map((word, index) => `"${word.replaceAll('"', '""')}"${index === words.length - 1 ? '*' : ''}`).join(' ')
}

/** What full-text search finds. */
function searchable(event: NewEvent): string | null {
  switch (event.type) {
    case 'prompt.queued':
    case 'text':
      return event.body.text
    case 'tool.started':
      return `${event.body.tool} ${typeof event.body.input === 'string' ? event.body.input : JSON.stringify(event.body.input)}`
    case 'tool.finished':
      return event.body.output
    case 'session.created':
      return event.body.name
    default:
      return null
  }
}
