import { resumesMax, takesUp } from '@anchorhold/core/session-states'
import type { LiveFrame, NewEvent } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import { rmSync } from 'node:fs'
import { transaction, type Writes } from '../../transaction.ts'
import type { Parts, Reads } from '../parts.ts'

/** How far back a block that a dead keeper was saying may have been stored already. */
const lookBackEvents = 100

/** Takes in what a keeper that died had last written down of its agent's words, but for what is stored. */
export function hearOut(parts: Reads & Pick<Parts, 'hub'>, id: SessionId, frames: readonly LiveFrame[]): void {
  const recent = parts.store.events.before(id, Number.MAX_SAFE_INTEGER, lookBackEvents)
  const stored = new Set(
    recent.flatMap((event) => (event.type === 'text' || event.type === 'thinking' ? [event.body.block] : [])),
  )
  for (const frame of frames) if (frame.type !== 'tool.progress' && !stored.has(frame.block)) parts.hub.live(id, frame)
}

/** A keeper is gone, and all it had to tell is stored; if it did not say that it left, it was lost. What its agent was saying
 *  is kept as far as anybody has seen it. Where the session is to go on by itself, it is made ready to. */
export function forgetKeeper(parts: Writes & Pick<Parts, 'folders' | 'gate' | 'hub' | 'log'>, id: SessionId, why: string): void {
  const partial = parts.hub.saying(id).flatMap((frame): NewEvent[] => {
    if (frame.type === 'tool.progress') return []
    const { block, text, parent } = frame
    return [{ type: frame.type === 'text.delta' ? 'text' : 'thinking', body: { block, text, parent, partial: true } }]
  })
  transaction(parts, (tx) => {
    const { sessions } = tx.store
    if (sessions.get(id)?.standing.keeper === true) tx.record(id, ...partial, { type: 'keeper.lost', body: { why } })
    const session = sessions.get(id)
    if (session?.state !== 'interrupted' || !(takesUp(session.standing) || isAnswered(tx, id))) return
    const again = `Taken up again after a crash (${session.standing.crashes} of ${resumesMax})`
    const to = session.standing.requests > 0 ? ('waiting' as const) : ('ready' as const)
    tx.record(id, { type: 'session.state', body: { from: 'interrupted', to, why: takesUp(session.standing) ? again : null } })
  })
  if (parts.gate.up) void parts.gate.do({ do: 'close', session: id }).catch(() => {})
  try {
    rmSync(parts.folders.windows(id), { recursive: true, force: true })
  } catch (error) {
    // A gate that comes back just now may be opening them again. The next keeper's take their place.
    parts.log(`windows of ${id}: ${String(error)}`)
  }
}

/** Whether somebody has answered what a prompt is waiting to tell the agent: who answers has decided that the session goes on, also when
 *  nobody knew yet that its keeper was dead. */
function isAnswered({ store }: Reads, id: SessionId): boolean {
  if (!store.prompts.queued(id).some(({ cause }) => cause === 'resume')) return false
  const [newest] = store.requests
    .list({ openOnly: false, session: id, seenBy: null })
    .toSorted((a, b) => (b.answered_at ?? 0) - (a.answered_at ?? 0))
  return newest?.answer?.decision === 'allow' || newest?.answer?.decision === 'deny'
}
