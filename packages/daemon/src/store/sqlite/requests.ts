import { Request } from '@anchorhold/protocol/api'
import type { Database } from 'better-sqlite3'
import type { RequestTable } from '../store.ts'
import { seenIds } from './people.ts'

type Row = {
  id: string
  session_id: string
  session_name: string
  action: string
  opened_at: number
  answer: string | null
  answered_at: number | null
  answered_by: string | null
}

export function sqliteRequests(db: Database): RequestTable {
  const select = `select request.*, session.name as session_name from request join session on session.id = request.session_id`
  const get = db.prepare<[string], Row>(`${select} where request.id = ?`)
  type Filter = { readonly openOnly: number; readonly session: string | null; readonly seenBy: string | null }
  const list = db.prepare<[Filter], Row>(
    `${select} where (@openOnly = 0 or answer is null) and (@session is null or session_id = @session)
       and (@seenBy is null or session_id in ${seenIds}) order by opened_at desc limit 500`,
  )
  return {
    get(id) {
      const row = get.get(id)
      return row === undefined ? null : toRequest(row)
    },
    list: ({ openOnly, session, seenBy }) => list.all({ openOnly: openOnly ? 1 : 0, session, seenBy }).map(toRequest),
  }
}

function toRequest(row: Row): Request {
  return Request.parse({
    id: row.id,
    session: row.session_id,
    session_name: row.session_name,
    action: JSON.parse(row.action),
    opened_at: row.opened_at,
    answer: row.answer === null ? null : JSON.parse(row.answer),
    answered_at: row.answered_at,
    answered_by: row.answered_by,
  })
}
