import { Request } from '@anchorhold/protocol/requests'
import type { Event, NewEvent } from '@anchorhold/protocol/events'
import type { RequestId, SessionId } from '@anchorhold/protocol/ids'
import { Grant } from '@anchorhold/protocol/authority'
import type { Database } from 'better-sqlite3'
import type { RequestRow, RequestTable, StoredGrant } from '../store.ts'
import { seenIds } from './people.ts'

type Row = {
  id: string
  session_id: string
  session_name: string
  secrets: string | null
  action: string
  digest: string | null
  pins: string
  why: string | null
  rule: string | null
  rule_refused: string | null
  raises: string
  opened_at: number
  expires_at: number | null
  deferred: number
  answer: string | null
  answered_at: number | null
  answered_by: string | null
  answered_from: string | null
  told: number
  used: number
}
type GrantRow = {
  request_id: string
  kind: string
  digest: string
  pins: string
  scope: string
  rule: string | null
  nanos: number | null
  expires_at: number | null
  actor: string
}

const listedMax = 500
const openOfOneMax = 20

export function sqliteRequests(db: Database): RequestTable {
  const selectFrom = (requests: string) => `select request.*, session.name as session_name,
      session.options ->> '$.secrets' as secrets, grant.used_at is not null as used
    from ${requests} as request join session on session.id = request.session_id left join grant on grant.request_id = request.id`
  const select = selectFrom('request')
  const get = db.prepare<[string], Row>(`${select} where request.id = ?`)
  type Filter = { readonly session: string | null; readonly seenBy: string | null }
  const list = db.prepare<[Filter], Row>(
    `${select} where (@session is null or request.session_id = @session)
       and (@seenBy is null or request.session_id in ${seenIds}) order by opened_at desc limit ${listedMax}`,
  )
  const listOpenOf = db.prepare<[Filter], Row>(
    `${select} where answer is null and request.session_id = @session
       and (@seenBy is null or request.session_id in ${seenIds}) order by opened_at desc limit ${listedMax}`,
  )
  // Of each session so many: one that asks for everything does not hide what another waits for.
  const listOpen = db.prepare<[Pick<Filter, 'seenBy'>], Row>(
    `${selectFrom('(select *, row_number() over (partition by session_id order by opened_at) as nth from request where answer is null)')}
       where nth <= ${openOfOneMax} and (@seenBy is null or request.session_id in ${seenIds}) order by opened_at desc limit ${listedMax}`,
  )
  const waiting = db.prepare<[], { session_id: string; opened_at: number; expires_at: number | null }>(
    `select session_id, min(opened_at) as opened_at, min(expires_at) as expires_at from request where answer is null group by session_id`,
  )
  const untold = db.prepare<[string | null, string | null], Row>(
    `${select} where answer is not null and told = 0 and (? is null or request.session_id = ?) order by answered_at`,
  )
  const overdue = db.prepare<[number], { id: string }>(`select id from request where answer is null and expires_at <= ?`)
  const grants = db.prepare<[string, number], GrantRow>(
    `select grant.*, json_extract(request.action, '$.needed_nanos') as nanos from grant join request on request.id = grant.request_id
       where grant.session_id = ? and used_at is null and (grant.expires_at is null or grant.expires_at > ?)`,
  )
  const approved = db.prepare<[string], { id: string }>(
    `select id from request where session_id = ? and json_extract(action, '$.kind') = 'plan' and json_extract(answer, '$.decision') = 'allow' limit 1`,
  )
  return {
    get(id) {
      const row = get.get(id)
      return row === undefined ? null : toRequest(row)
    },
    list({ openOnly, session, seenBy }) {
      if (!openOnly) return list.all({ session, seenBy }).map(toRequest)
      return (session === null ? listOpen.all({ seenBy }) : listOpenOf.all({ session, seenBy })).map(toRequest)
    },
    waiting: () =>
      waiting.all().map(({ session_id, opened_at, expires_at }) => ({ session: session_id as SessionId, opened_at, expires_at })),
    untold: (session) => untold.all(session, session).map(toRequest),
    overdue: (now) => overdue.all(now).map(({ id }) => id as RequestId),
    grants: (session, now) => grants.all(session, now).map(toGrant),
    hasApprovedPlan: (session) => approved.get(session) !== undefined,
  }
}

/** The part of storing an event that concerns requests. It is done before the event has its number: an answer to what is settled
 *  already, or a request that is known, is no event at all. So the first answer stands, whoever it came from. */
export interface Docket {
  /** `origin` is who tells of it. */
  admits(session: SessionId, event: NewEvent, at: number, origin: string): boolean
  openOf(session: SessionId): readonly RequestId[]
}

export function sqliteDocket(db: Database): Docket {
  const opened = db.prepare(`
    insert into request (id, session_id, action, digest, pins, why, rule, rule_refused, raises, opened_at, expires_at)
    values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict do nothing`)
  const answered = db.prepare(`
    update request set answer = ?, answered_at = ?, answered_by = ?, answered_from = ?, told = ?
    where id = ? and session_id = ? and answer is null`)
  // Questions are answered, and nothing is allowed by it; a session that has no rule to go by is allowed the one action.
  const granted = db.prepare(`
    insert into grant (request_id, session_id, kind, digest, pins, scope, rule, expires_at, actor)
    select id, session_id, json_extract(action, '$.kind'), digest, pins, ?, case when ? = 'session' then rule end, ?, ?
    from request where id = ? and digest is not null and json_extract(action, '$.kind') <> 'question'`)
  const open = db.prepare<[string], { id: string }>(`select id from request where session_id = ? and answer is null`)
  return {
    admits(session, event, at, origin) {
      if (event.type === 'request.opened') {
        const { id, action, digest, pins = [], why, rule, rule_refused, raises = [], expires_at } = event.body
        const json = (value: unknown) => (value === undefined ? null : JSON.stringify(value))
        const asked = [json(action), digest ?? null, json(pins), why ?? null, json(rule), rule_refused ?? null, json(raises)]
        return opened.run(id, session, ...asked, at, expires_at ?? null).changes === 1
      }
      if (event.type === 'request.answered') {
        const { id, answer, actor, door } = event.body
        // Whoever takes a request of their own back does not wait for the news.
        const told = answer.decision === 'withdrawn' && origin !== 'daemon' ? 1 : 0
        if (answered.run(JSON.stringify(answer), at, actor, door, told, id, session).changes === 0) return false
        const scope = answer.scope === 'session' ? 'session' : 'once'
        if (answer.decision === 'allow') granted.run(scope, scope, answer.expires_at ?? null, actor, id)
      }
      return true
    },
    openOf: (session) => open.all(session).map(({ id }) => id as RequestId),
  }
}

/** Takes in what is said of requests that stand. */
export function requestProjection(db: Database): (event: Event) => void {
  const deferred = db.prepare(`update request set deferred = 1 where id = ? and session_id = ?`)
  const told = db.prepare(`update request set told = 1 where id = ? and session_id = ?`)
  const used = db.prepare(
    `update grant set used_at = ? where request_id = ? and session_id = ? and scope = 'once' and used_at is null`,
  )
  return ({ type, body, session, at }) => {
    if (type === 'request.deferred') deferred.run(body.id, session)
    if (type === 'request.told') told.run(body.id, session)
    if (type === 'grant.used') used.run(at, body.request, session)
  }
}

function toRequest(row: Row): RequestRow {
  const request = Request.parse({
    ...row,
    session: row.session_id,
    secrets_inside: JSON.parse(row.secrets ?? '[]'),
    action: JSON.parse(row.action),
    rule: row.rule === null ? null : JSON.parse(row.rule),
    deferred: row.deferred === 1,
    answer: row.answer === null ? null : JSON.parse(row.answer),
  })
  return {
    ...request,
    pins: JSON.parse(row.pins) as RequestRow['pins'],
    raises: JSON.parse(row.raises) as RequestRow['raises'],
    told: row.told === 1,
    used: row.used === 1,
  }
}

function toGrant({ request_id: request, kind, pins, rule, ...row }: GrantRow): StoredGrant {
  const grant = Grant.parse({ ...row, request, pins: JSON.parse(pins), rule: rule === null ? null : JSON.parse(rule) })
  return { ...grant, kind: kind as StoredGrant['kind'] }
}
