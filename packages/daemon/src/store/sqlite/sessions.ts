import { firstHash } from '@anchorhold/core/chain'
import { atBirth, type Standing } from '@anchorhold/core/session-states'
import { firstOwner, type SessionId, type UserId } from '@anchorhold/protocol/ids'
import { microsUp } from '@anchorhold/protocol/money'
import type { SessionOptions } from '@anchorhold/protocol/session-options'
import type { Session, SessionState } from '@anchorhold/protocol/sessions'
import type { Database } from 'better-sqlite3'
import type { SessionRow, SessionTable } from '../store.ts'
import { sha256 } from './chains.ts'
import { seenIds } from './people.ts'
import { keepUsageSql } from './usage.ts'

type Row = {
  id: string
  owner: string
  owner_name: string
  state_by: string | null
  name: string
  state: string
  why: string | null
  standing: string
  options: string
  rung: string
  provider: string
  model: string
  simulated: number
  workspace: string
  branch: string | null
  at_commit: string | null
  base_commit: string | null
  context_used: number | null
  context_window: number | null
  run_as: string | null
  conversation: string
  conversing: number
  grants: string
  forget_after: string
  created_at: number
  active_at: number
  archived_at: number | null
  last_seq: number
  turns: number
  cost_nanos: number
  budget_nanos: number | null
  lease_closed: number
  limits: string
  forked_from: string | null
  open_requests: number
  queued_prompts: number
}

/** What 32-bit signed numbers hold. */
const uidMax = 2 ** 31 - 1

const select = `select session.*, (select name from user where id = session.owner) as owner_name,
  (select count(*) from request where session_id = session.id and answer is null) as open_requests,
  (select count(*) from prompt where session_id = session.id and state = 'queued') as queued_prompts from session`

export function sqliteSessions(db: Database): SessionTable {
  const insert = db.prepare(
    `insert into session (id, owner, standing, options, run_as, conversation, conversing, grants, forget_after, head)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  )
  const get = db.prepare<[string], Row>(`${select} where id = ?`)
  type Filter = {
    readonly open: number
    readonly state: string | null
    readonly needing: number
    readonly before: number
    readonly limit: number
    readonly seenBy: string | null
  }
  const list = db.prepare<[Filter], Row>(
    `${select} where (archived_at is null) = @open and (@state is null or state = @state) and active_at < @before
       and (not @needing or state = 'waiting' or id in (select session_id from request where answer is null))
       and (@seenBy is null or id in ${seenIds}) order by active_at desc limit @limit`,
  )
  const idsAfter = db.prepare<[string, number], { id: string }>(`select id from session where id > ? order by id limit ?`)
  const tended = db.prepare<[], Row>(`${select} where json_extract(standing, '$.keeper')`)
  const crashed = db.prepare<[], { id: string }>(`select id from session where json_extract(standing, '$.crashes') > 0`)
  const counts = db.prepare<[{ readonly seenBy: string | null }], { state: string; count: number }>(
    `select state, count(*) as count from session where @seenBy is null or id in ${seenIds} group by state`,
  )
  const openOf = db.prepare<[string], { count: number }>(
    `select count(*) as count from session where owner = ? and state not in ('stopped', 'failed', 'archived')`,
  )
  const sharing = db.prepare<[string, string], Row>(`${select} where workspace = ? and id <> ?`)
  const workedIn = db.prepare<[string, number | null], { one: 1 }>(
    `select 1 as one from session where workspace = ? and json_extract(run_as, '$.uid') is ? limit 1`,
  )
  const setGrants = db.prepare(`update session set grants = ? where id = ?`)
  const granted = db.prepare<[], { id: string }>(`select id from session where grants <> '[]'`)
  // Owners of host folders are in the same column, and may have any uid.
  const lastUid = db.prepare<[number, number], { uid: number | null }>(
    `select max(json_extract(run_as, '$.uid')) as uid from session where json_extract(run_as, '$.uid') between ? and ?`,
  )
  /** Given away since the start; the sessions that they are for may not be stored yet, or purged and not yet off the disk. */
  let taken = 0
  const purges = [
    keepUsageSql,
    `delete from event_text where rowid in (select pos from event where session_id = ?)`,
    ...['event', 'prompt', 'request', 'grant', 'usage', 'session_key', 'session_share', 'unchained', 'net_day', 'net_secret'].map(
      (table) => `delete from ${table} where session_id = ?`,
    ),
    `delete from source where name = 'keeper/' || ?`,
    `delete from session where id = ?`,
  ].map((sql) => db.prepare(sql))
  return {
    insert: ({ id, ownerId = firstOwner, options, runAs, conversation, conversing, grants, forgetAfter = [] }) =>
      void insert.run(
        id,
        ownerId,
        JSON.stringify(atBirth),
        JSON.stringify(options),
        runAs === null ? null : JSON.stringify(runAs),
        conversation,
        conversing ? 1 : 0,
        JSON.stringify(grants),
        JSON.stringify(forgetAfter),
        firstHash(sha256, id),
      ),
    get(id) {
      const row = get.get(id)
      return row === undefined ? null : toSession(row)
    },
    list: ({ archived, state, needing = false, before, limit, seenBy }) =>
      list
        .all({
          open: archived ? 0 : 1,
          state,
          needing: needing ? 1 : 0,
          before: before ?? Number.MAX_SAFE_INTEGER,
          limit,
          seenBy,
        })
        .map(toSession),
    idsAfter: (id, limit) => idsAfter.all(id, limit).map((row) => row.id as SessionId),
    tended: () => tended.all().map(toSession),
    crashed: () => crashed.all().map(({ id }) => id as SessionId),
    counts: (seenBy) => Object.fromEntries(counts.all({ seenBy }).map(({ state, count }) => [state, count])),
    openOf: (owner) => openOf.get(owner)?.count ?? 0,
    sharing: ({ id, workspace }) => sharing.all(workspace, id).map(toSession),
    isWorkedIn: (workspace, uid) => workedIn.get(workspace, uid) !== undefined,
    setGrants: (id, grants) => void setGrants.run(JSON.stringify(grants), id),
    granted: () => granted.all().map(({ id }) => id as SessionId),
    takeUid(first) {
      taken = Math.max(first - 1, taken, lastUid.get(first, uidMax)?.uid ?? 0) + 1
      return taken
    },
    purge: db.transaction((id: SessionId) => {
      taken = Math.max(taken, lastUid.get(0, uidMax)?.uid ?? 0)
      for (const purge of purges) purge.run(id)
    }),
  }
}

function toSession(row: Row): SessionRow {
  const standing = JSON.parse(row.standing) as Standing
  const { autonomy_given: given, ...options } = JSON.parse(row.options) as SessionOptions & { autonomy_given?: number }
  return {
    id: row.id as SessionId,
    owner: row.owner_name,
    ownerId: row.owner as UserId,
    stateBy: row.state_by as UserId | null,
    name: row.name,
    state: row.state as SessionState,
    why: row.why,
    rung: row.rung as Session['rung'],
    provider: row.provider,
    model: row.model,
    simulated: row.simulated === 1,
    workspace: row.workspace,
    branch: row.branch,
    context:
      row.context_used === null || row.context_window === null
        ? null
        : { used_tokens: row.context_used, window_tokens: row.context_window },
    created_at: row.created_at,
    active_at: row.active_at,
    archived_at: row.archived_at,
    last_seq: row.last_seq,
    turns: row.turns,
    cost_micros: microsUp(row.cost_nanos),
    budget_micros: row.budget_nanos === null ? null : microsUp(row.budget_nanos),
    limits: JSON.parse(row.limits) as Session['limits'],
    open_requests: row.open_requests,
    queued_prompts: row.queued_prompts,
    forked_from: row.forked_from as SessionId | null,
    on_crash: standing.onCrash,
    spend: options.spend ?? 'stop',
    network: options.network ?? (row.rung === 'none' ? 'host' : 'none'),
    autonomy: options.autonomy ?? null,
    policy: options.policy ?? null,
    observe: options.observe ?? false,
    group: options.group ?? null,
    checkedOut: { branch: row.branch, commit: row.at_commit },
    baseCommit: row.base_commit,
    secrets_inside: options.secrets ?? [],
    autonomyGiven: given === 1,
    options,
    standing,
    runAs: row.run_as === null ? null : (JSON.parse(row.run_as) as { uid: number; gid: number }),
    conversation: row.conversation,
    conversing: row.conversing === 1,
    grants: JSON.parse(row.grants) as string[],
    forgetAfter: JSON.parse(row.forget_after) as string[],
    costNanos: row.cost_nanos,
    budgetNanos: row.budget_nanos,
    leaseClosed: row.lease_closed === 1,
  }
}
