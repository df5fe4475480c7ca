import { may, type Actor, type Permission } from '@anchorhold/core/actors'
import { mayDo, states, type Verb } from '@anchorhold/core/session-states'
import type { DoctorReport } from '@anchorhold/protocol/doctor'
import type { NewEvent } from '@anchorhold/protocol/events'
import { Failure } from '@anchorhold/protocol/failures'
import type { RandomBytes, SessionId } from '@anchorhold/protocol/ids'
import type { Session } from '@anchorhold/protocol/sessions'
import type { Config } from '../config.ts'
import type { Folders } from '../folders.ts'
import type { Hub } from '../hub.ts'
import type { Look } from '../processes/doctor-process.ts'
import type { GateProcess } from '../processes/gate-process.ts'
import type { KeeperProcesses } from '../processes/keeper-processes.ts'
import type { Sources } from '../processes/sources.ts'
import type { SessionRow, Store } from '../store/store.ts'

/** What the verbs are made of. */
export type Parts = {
  readonly config: Config
  readonly folders: Folders
  readonly store: Store
  readonly hub: Hub
  readonly sources: Sources
  readonly gate: GateProcess
  readonly keepers: KeeperProcesses
  /** What this machine can isolate; `fresh` looks again. */
  readonly doctor: (look: Look) => Promise<DoctorReport>
  readonly now: () => number
  readonly random: RandomBytes
  readonly log: (message: string) => void
}

/** Every verb begins with this: who asks, and whether they may. */
export function require(actor: Actor, permission: Permission): void {
  if (!may(actor, permission)) throw new Failure('forbidden', `"${actor.name}" may not do this`)
}

export function sessionFor(parts: Parts, id: SessionId, verb: Verb | null): SessionRow {
  const session = parts.store.sessions.get(id)
  if (session === null) throw new Failure('not_found', `There is no session "${id}"`)
  if (verb !== null && !mayDo(session.state, verb)) {
    throw new Failure(
      'wrong_state',
      `Cannot ${verb} session "${id}": it is ${session.state} (${states[session.state].meaning})`,
      {
        ...(hints[session.state] === undefined ? {} : { hint: hints[session.state] }),
      },
    )
  }
  return session
}

const hints: Partial<Record<Session['state'], string>> = {
  stopped: 'Start it first: anchorhold start SESSION',
  paused: 'Resume it first: anchorhold resume SESSION',
  archived: 'An archived session can be read, forked or purged',
}

/** Stores events of the daemon's own and tells those who watch. */
export function record(parts: Parts, session: SessionId, ...events: readonly NewEvent[]): void {
  const at = parts.now()
  parts.hub.stored(
    parts.store.atomically(() =>
      parts.store.events.append(
        session,
        'daemon',
        events.map((event) => ({ n: null, at, event })),
      ),
    ),
  )
}

/** A session as doors show it. */
export function shown(row: SessionRow): Session {
  const {
    options: _o,
    standing: _s,
    runAs: _r,
    conversation: _c,
    conversing: _v,
    grants: _g,
    forgetAfter: _f,
    costNanos: _n,
    budgetNanos: _b,
    ...session
  } = row
  return session
}
