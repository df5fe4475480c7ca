import { parseNewEvent } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import SQLite, { type Database } from 'better-sqlite3'
import type { Store } from '../store.ts'
import { seenIds } from './people.ts'
import { backfilledTypes, searchable, searchedTypes } from './searchable.ts'

type Row = { session_id: string; session_name: string; seq: number; at: number; type: string; pos: number }
type NamedRow = { id: string; name: string; workspace: string; branch: string | null }
type ToIndex = { pos: number; type: string; body: string }

const searchedChars = 64 * 1024
const indexedAtOnce = 500
/** So often, before it is asked. */
const stepsMax = 8
/** Positions that are gone through at a time, for what an older index lacks. */
const backfilledAtOnce = 1000
/** Of what many texts hold, so many of the newest are weighed: that takes longest, and whoever serves people waits for it. */
const weighedMax = 5000
/** So many of the best fitting are looked at to find which sessions they are of. */
const rankedMax = 2000
/** Sessions that are found by what they are called. */
const namedMax = 20

const listOf = (types: readonly string[]) => types.map((type) => `'${type}'`).join(', ')

/** Full-text search. Taking a text apart costs more than storing it, so the index follows behind the log, and catches up
 *  before it is asked. */
export function sqliteSearch(db: Database): { readonly search: Store['search']; readonly index: Store['index'] } {
  const indexedTo = db.prepare<[], { pos: number | null }>(`select max(id) as pos from event_text_content`)
  const behind = db.prepare<[number, number], ToIndex>(`select pos, type, body from event where pos > ? order by pos limit ?`)
  const insert = db.prepare(`insert into event_text (rowid, text) values (?, ?)`)
  const searched = new Set<string>(searchedTypes)
  const put = ({ pos, type, body }: ToIndex) => {
    if (!searched.has(type)) return
    const words = searchable(parseNewEvent(type, JSON.parse(body)))
    if (words !== null && words.trim() !== '') insert.run(pos, words.slice(0, searchedChars))
  }
  /** What has been looked at, also where there was nothing to index. */
  let reached = 0
  const index = db.transaction(() => {
    const rows = behind.all(Math.max(reached, indexedTo.get()?.pos ?? 0), indexedAtOnce)
    for (const row of rows) put(row)
    return { last: rows.at(-1)?.pos, more: rows.length === indexedAtOnce }
  })
  const catchUp = (): boolean => {
    const { last, more } = index()
    if (last !== undefined) reached = last
    return more
  }

  /** What was said last is found. Where there is much of it, or the disk takes nothing, the rest comes behind: everybody waits meanwhile. */
  const catchUpSoon = () => {
    try {
      for (let step = 0; step < stepsMax && catchUp(); step++);
    } catch (error) {
      if (!(error instanceof SQLite.SqliteError)) throw error
    }
  }

  const left = db.prepare<[], { next: number; until: number }>(`select next, until from search_backfill where next < until`)
  const between = db.prepare<[number, number], ToIndex>(
    `select pos, type, body from event where pos > ? and pos <= ? and type in (${listOf(backfilledTypes)}) order by pos`,
  )
  const advance = db.prepare<[number]>(`update search_backfill set next = ?`)
  const backfill = db.transaction((): boolean => {
    const todo = left.get()
    if (todo === undefined) return false
    const to = Math.min(todo.until, todo.next + backfilledAtOnce)
    for (const row of between.all(todo.next, to)) put(row)
    advance.run(to)
    return to < todo.until
  })

  type Query = { readonly match: string; readonly session: string | null; readonly seenBy: string | null; readonly limit: number }
  const seen = `(@session is null or event.session_id = @session) and (@seenBy is null or event.session_id in ${seenIds})`
  const newest = db.prepare<[Query], { pos: number }>(`
    select event_text.rowid as pos from event_text join event on event.pos = event_text.rowid
    where event_text match @match and ${seen} order by event_text.rowid desc limit 1 offset ${weighedMax}`)
  const find = db.prepare<[Query & { readonly beyond: number }], Row>(`
    select event.session_id, session.name as session_name, event.seq, event.at, event.type, event.pos
    from event_text join event on event.pos = event_text.rowid join session on session.id = event.session_id
    where event_text match @match and event_text.rowid > cast(@beyond as integer) and ${seen}
    order by rank limit @limit`)
  // Among what matches, which is so gone through once for all of them. Not by a bound number, hence the plus: those are real ones,
  // for which this index gives the first row that matches.
  const snippets = db.prepare<[string, string], { pos: number; snippet: string }>(
    `select rowid as pos, snippet(event_text, 0, '«', '»', ' … ', 24) as snippet from event_text
     where event_text match ? and +rowid in (select value from json_each(?))`,
  )
  const named = db.prepare<[{ readonly seenBy: string | null }], NamedRow>(`
    select id, name, workspace, branch from session where @seenBy is null or id in ${seenIds} order by active_at desc`)

  function sessionsNamed(words: readonly string[], seenBy: string | null): SessionId[] {
    const found: SessionId[] = []
    for (const { id, name, workspace, branch } of named.iterate({ seenBy })) {
      // A folder that was made for the session has no name that says anything.
      const called = [id, name, workspace.includes(id) ? '' : workspace, branch ?? ''].join('\n').toLowerCase()
      if (words.every((word) => called.includes(word))) found.push(id as SessionId)
      if (found.length === namedMax) break
    }
    return found
  }

  return {
    index: () => catchUp() || backfill(),
    search({ q, session, seenBy, limit, perSession }) {
      const words = q.split(/[\s\0]+/).filter((word) => word !== '')
      // Nothing to look for is no query.
      if (words.length === 0) return { hits: [], sessions: [], more: false, deeper: [] }
      catchUpSoon()
      const match = asMatch(words)
      const bySession = new Map<string, number>()
      const query = { match, session, seenBy, limit: perSession === null ? limit + 1 : rankedMax }
      const beyond = newest.get(query)?.pos ?? null
      const fitting = find.all({ ...query, beyond: beyond ?? 0 }).filter((row) => {
        const count = (bySession.get(row.session_id) ?? 0) + 1
        bySession.set(row.session_id, count)
        return perSession === null || count <= perSession
      })
      const shown = fitting.slice(0, limit)
      const found = snippets.all(match, JSON.stringify(shown.map(({ pos }) => pos)))
      const snippetAt = new Map(found.map(({ pos, snippet }) => [pos, snippet]))
      return {
        hits: shown.map(({ session_id, pos, ...rest }) => ({
          ...rest,
          session: session_id as SessionId,
          snippet: snippetAt.get(pos) ?? '',
        })),
        more: fitting.length > limit || beyond !== null,
        deeper: [...bySession].flatMap(([id, count]) => (perSession !== null && count > perSession ? [id as SessionId] : [])),
        sessions:
          session === null
            ? sessionsNamed(
                words.map((word) => word.toLowerCase()),
                seenBy,
              )
            : [],
      }
    },
  }
}

/** Every word must occur, the last one at least as a beginning, unless that is one letter, with which a tenth of all words begin. Quoted,
 *  so that no word is an operator. */
const asMatch = (words: readonly string[]): string =>
  words
    .map((word, index) => `"${word.replaceAll('"', '""')}"${index === words.length - 1 && !/^[a-z]$/i.test(word) ? '*' : ''}`)
    .join(' ')
