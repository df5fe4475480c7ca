import { type Actor, may, seenBy } from '@anchorhold/core/actors'
import { printable } from '@anchorhold/core/printable'
import type { Worker } from '@anchorhold/protocol/api/sessions'
import type { SessionId } from '@anchorhold/protocol/ids'
import { KeeperHealth } from '@anchorhold/protocol/keeper-commands'
import { setTimeout as wait } from 'node:timers/promises'
import { type Parts, type Reads, require } from '../parts.ts'

/** One that takes longer to say how it is, is not well. */
const answerMs = 2000

/** Every keeper, those that wait for a session included. */
export async function listWorkers(parts: Reads & Pick<Parts, 'keepers'>, actor: Actor): Promise<readonly Worker[]> {
  require(parts, actor, 'house.read')
  const seen = parts.keepers.sessions.filter((id) => may(actor, 'session.read', parts.store.people.ties(id) ?? undefined))
  const tending = await Promise.all(seen.map((id) => tendingOne(parts, id)))
  // ReadyCells are nobody's yet.
  const ready = seenBy(actor) === null ? parts.keepers.readyCells : []
  const waiting = ready.map(({ session, rung, trouble }): Worker => {
    const how = trouble === null ? { status: 'idle' as const } : { status: 'unhealthy' as const, trouble: printable(trouble) }
    return { session, name: null, rung, sessions: 0, requests: 0, errors: 0, mean_ms: null, ...how }
  })
  return [...tending.filter((one) => one !== null), ...waiting]
}

async function tendingOne(parts: Reads & Pick<Parts, 'keepers'>, session: SessionId): Promise<Worker | null> {
  const row = parts.store.sessions.get(session)
  if (row === null) return null
  const { requests, errors, meanMs } = parts.store.calls(session)
  const status = await statusOf(parts, session)
  return { session, name: row.name, status, rung: row.rung, sessions: 1, requests, errors, mean_ms: meanMs }
}

async function statusOf(parts: Pick<Parts, 'keepers'>, session: SessionId): Promise<Worker['status']> {
  // One that is being started has work to do.
  if (!parts.keepers.has(session)) return 'busy'
  const health = parts.keepers.do(session, { do: 'ping' }).then(
    (answer) => KeeperHealth.safeParse(answer).data,
    () => null,
  )
  const answer = await Promise.race([health, wait(answerMs, null, { ref: false })])
  if (answer == null) return 'unhealthy'
  return answer.state === 'idle' ? 'idle' : 'busy'
}
