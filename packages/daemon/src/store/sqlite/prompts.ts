import type { PromptId, SessionId } from '@anchorhold/protocol/ids'
import type { Image, PromptMode, TurnCause } from '@anchorhold/protocol/sessions'
import type { Database } from 'better-sqlite3'
import type { PromptTable } from '../store.ts'

type Row = {
  id: string
  session_id: string
  text: string
  images: string
  mode: string
  cause: string
  queued_at: number
  state: string
}

export function sqlitePrompts(db: Database): PromptTable {
  const insert = db.prepare(
    `insert into prompt (id, session_id, text, images, mode, cause, queued_at, key) values (?, ?, ?, ?, ?, ?, ?, ?)`,
  )
  const get = db.prepare<[string], Row>(`select * from prompt where id = ?`)
  const byKey = db.prepare<[string, string], Row>(`select * from prompt where session_id = ? and key = ?`)
  const queued = db.prepare<[string], Row>(`select * from prompt where session_id = ? and state = 'queued' order by rowid`)
  const unfinished = db.prepare<[string], Row>(`select * from prompt where session_id = ? and state = 'delivered' order by rowid`)
  const sessions = db.prepare<[], { session_id: string }>(`select distinct session_id from prompt where state = 'queued'`)
  return {
    insert: (row, key) =>
      void insert.run(row.id, row.session, row.text, JSON.stringify(row.images), row.mode, row.cause, row.queuedAt, key),
    get: (id) => toPrompt(get.get(id)),
    byKey: (session, key) => toPrompt(byKey.get(session, key)),
    queued: (session) => queued.all(session).map((row) => toPrompt(row)!),
    unfinished: (session) => unfinished.all(session).map((row) => toPrompt(row)!),
    sessionsWithQueued: () => sessions.all().map((row) => row.session_id as SessionId),
  }
}

function toPrompt(row: Row | undefined): ReturnType<PromptTable['get']> {
  if (row === undefined) return null
  return {
    id: row.id as PromptId,
    session: row.session_id as SessionId,
    text: row.text,
    images: JSON.parse(row.images) as Image[],
    mode: row.mode as PromptMode,
    cause: row.cause as TurnCause,
    queuedAt: row.queued_at,
    state: row.state as NonNullable<ReturnType<PromptTable['get']>>['state'],
  }
}
