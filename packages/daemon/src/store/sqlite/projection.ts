import type { Event } from '@anchorhold/protocol/events'
import type { Database } from 'better-sqlite3'
import { ledgerProjection, raiseSql } from './ledger.ts'
import { netProjection } from './net.ts'
import { requestProjection } from './requests.ts'
import { usageProjection } from './usage.ts'

/** Brings the tables up to date with an event that was just stored. */
export function projection(db: Database): (event: Event) => void {
  const enter = db.prepare(
    `update session set state = ?, why = ?, archived_at = case when ? = 'archived' then coalesce(archived_at, ?) else null end,
      state_by = (select id from user where name = ? and removed_at is null) where id = ?`,
  )
  const created = db.prepare(`
    update session set name = ?, rung = ?, provider = ?, model = ?, simulated = ?, workspace = ?, budget_nanos = ?, forked_from = ?,
      created_at = ?, active_at = ? where id = ?`)
  const rename = db.prepare(`update session set name = ? where id = ?`)
  const remodel = db.prepare(`update session set model = ? where id = ?`)
  const rebudget = db.prepare(`update session set budget_nanos = ?, lease_closed = 0 where id = ?`)
  const overdrew = db.prepare(`update session set lease_closed = 1 where id = ?`)
  const freed = db.prepare(`update session set options = json_set(options, '$.autonomy', ?, '$.autonomy_given', ?) where id = ?`)
  const tended = db.prepare(`update session set limits = ? where id = ?`)
  const located = db.prepare(
    `update session set branch = ?, at_commit = ?, base_commit = case turns when 0 then coalesce(base_commit, ?) else base_commit end
     where id = ?`,
  )
  const filled = db.prepare(`update session set context_used = ?, context_window = ? where id = ?`)
  const turned = db.prepare(`update session set turns = turns + 1, conversing = 1 where id = ?`)
  const spent = db.prepare(`update session set cost_nanos = cost_nanos + ? where id = ?`)
  const book = usageProjection(db)
  const bookNodes = ledgerProjection(db)
  const passed = netProjection(db)
  const raised = db.prepare(raiseSql)
  const delivered = db.prepare(`update prompt set state = 'delivered' where id = ? and session_id = ?`)
  const dropped = db.prepare(`update prompt set state = 'dropped', images = '[]' where id = ? and session_id = ?`)
  const finished = db.prepare(`
    update prompt set state = 'done', images = '[]'
    where session_id = ? and state = 'delivered' and id not in (select value from json_each(?))`)
  const ofRequests = requestProjection(db)

  return (event) => {
    const { session, at } = event
    switch (event.type) {
      case 'session.created': {
        const { name, rung, provider, model, simulated, workspace, budget_nanos, forked_from } = event.body
        created.run(name, rung, provider, model, simulated ? 1 : 0, workspace, budget_nanos, forked_from, at, at, session)
        break
      }
      case 'session.changed': {
        const { name, model, budget_nanos, autonomy, autonomy_given } = event.body
        if (name !== undefined) rename.run(name, session)
        if (model !== undefined) remodel.run(model, session)
        if (budget_nanos !== undefined) rebudget.run(budget_nanos, session)
        if (autonomy !== undefined) freed.run(autonomy, autonomy_given === true ? 1 : 0, session)
        break
      }
      case 'session.state':
        enter.run(event.body.to, event.body.why, event.body.to, at, event.body.actor ?? null, session)
        break
      case 'keeper.started':
        tended.run(JSON.stringify(event.body.limits), session)
        break
      case 'turn.started':
        turned.run(session)
        break
      case 'workspace.at':
        located.run(event.body.branch, event.body.commit, event.body.commit, session)
        break
      case 'turn.ended':
        if (event.body.context !== undefined)
          filled.run(event.body.context.used_tokens, event.body.context.window_tokens, session)
        // What a crash cut short is not finished: the next agent may have to be told of it again.
        if (event.body.reason !== 'crashed') finished.run(session, JSON.stringify(event.body.left ?? []))
        break
      case 'prompt':
        delivered.run(event.body.id, session)
        break
      case 'prompt.dropped':
        dropped.run(event.body.id, session)
        break
      case 'request.deferred':
      case 'request.told':
      case 'grant.used':
        ofRequests(event)
        break
      case 'usage': {
        const { cost_nanos, began_at = at } = event.body
        spent.run(cost_nanos, session)
        if (event.body.exceeds) overdrew.run(session)
        book(session, event.body, began_at)
        bookNodes(event.body, began_at)
        break
      }
      case 'net':
        passed(session, event.body, at)
        break
      case 'budget.raised': {
        const { node, simulated, span, period, cap_nanos } = event.body
        raised.run(node, simulated ? 1 : 0, span, period, cap_nanos)
        break
      }
      default:
    }
  }
}
