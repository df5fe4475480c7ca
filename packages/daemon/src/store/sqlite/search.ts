import type { SessionId } from '@anchorhold/protocol/ids'
import type { Database } from 'better-sqlite3'
import type { Store } from '../store.ts'

type Row = { session_id: string; session_name: string; seq: number; at: number; type: string; snippet: string }

export function sqliteSearch(db: Database): Store['search'] {
  const find = db.prepare<[string, string | null, string | null, number], Row>(`
    select event.session_id, session.name as session_name, event.seq, event.at, event.type,
      snippet(event_text, 0, '«', '»', ' … ', 24) as snippet
    from event_text join event on event.pos = event_text.rowid join session on session.id = event.session_id
    where event_text match ? and (? is null or event.session_id = ?)
    order by rank limit ?`)
  return ({ q, session, limit }) => {
    const match = asMatch(q)
    // Nothing to look for is no query.
    if (match === '') return []
    return find
      .all(match, session, session, limit)
      .map(({ session_id, ...rest }) => ({ ...rest, session: session_id as SessionId }))
  }
}

/** Every word must occur, the last one at least as a beginning. Quoted, so that no word is an operator. */
function asMatch(q: string): string {
  const words = q.split(/[\s\0]+/).filter((word) => word !== '')
  return words.map((word, index) => `"${word.replaceAll('"', '""')}"${index === words.length - 1 ? '*' : ''}`).join(' ')
}
