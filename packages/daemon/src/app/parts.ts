import { may, type Actor, type Permission } from '@anchorhold/core/actors'
import { mayDo, states, type Verb } from '@anchorhold/core/session-states'
import type { DoctorReport } from '@anchorhold/protocol/doctor'
import { Failure } from '@anchorhold/protocol/failures'
import { firstOwner, type RandomBytes, type SessionId, type UserId } from '@anchorhold/protocol/ids'
import type { Session } from '@anchorhold/protocol/sessions'
import type { Config } from '../config.ts'
import type { Folders } from '../folders.ts'
import type { Hub } from '../hub.ts'
import type { Attempts } from '../logins/attempts.ts'
import type { Passwords } from '../logins/passwords.ts'
import type { Policies } from '../policy/policies.ts'
import type { Presence } from '../presence.ts'
import type { PushService } from '../push/push-service.ts'
import type { Look } from '../processes/doctor-process.ts'
import type { GateProcess } from '../processes/gate-process.ts'
import type { KeeperProcesses } from '../processes/keeper-processes.ts'
import type { Sources } from '../processes/sources.ts'
import type { User } from '../processes/spare-keepers.ts'
import type { SessionRow, Store, Tables } from '../store/store.ts'
import type { Writes } from '../transaction.ts'
import type { Watches } from '../watches.ts'

/** What the verbs are made of. */
export type Parts = {
  readonly config: Config
  readonly folders: Folders
  readonly store: Store
  readonly hub: Hub
  readonly watches: Watches
  readonly policies: Policies
  readonly presence: Presence
  readonly push: PushService
  readonly passwords: Passwords
  readonly attempts: Attempts
  readonly sources: Sources
  readonly gate: GateProcess
  readonly keepers: KeeperProcesses
  /** As root, a user that no other session has; null otherwise. */
  readonly newUser: () => User | null
  /** What this machine can isolate; `fresh` looks again. */
  readonly doctor: (look: Look) => Promise<DoctorReport>
  readonly now: () => number
  readonly random: RandomBytes
  readonly log: (message: string) => void
}

/** The roles of the parts: a verb names those that it takes, so that its first line says what it may touch. */

/** Looks at the tables and writes nothing, in a transaction or outside of any. */
export type Reads = { readonly store: Tables }

/** Decides what a session is held to. */
export type Judges = Reads & Pick<Parts, 'policies' | 'config'>

/** Gets what is queued to keepers, and says in a session why it could not. */
export type Delivers = Writes & Pick<Parts, 'keepers' | 'log'>

/** Opens a session's windows at the gate. */
export type Opens = Judges & Pick<Parts, 'folders' | 'gate' | 'now'>

/** Has live sessions go by what has changed. */
export type Holds = Opens & Pick<Parts, 'keepers' | 'log'>

/** Every verb begins with this: who asks, and whether they may. A session that they may not see is not there for them. */
export function require(parts: Reads, actor: Actor, permission: Permission, session?: SessionId): void {
  const ties = session === undefined ? undefined : parts.store.people.ties(session)
  if (session !== undefined && (ties == null || !may(actor, 'session.read', ties))) throw noSession(session)
  if (may(actor, permission, ties ?? undefined)) return
  throw new Failure('forbidden', `"${actor.name}" may not do this: ${roleWords[actor.kind]}`, {
    hint: 'anchorhold whoami says who you are here; an owner can change it',
  })
}

const roleWords: Record<Actor['kind'], string> = {
  owner: 'no role may do this',
  member: 'a member may work on their own sessions and on those shared with them',
  viewer: 'a viewer may look at what is shown to them',
  agent: 'an agent may work on its own sessions, and widen nothing',
  system: 'no role may do this',
  nobody: 'nobody has said who asks',
}

const noSession = (id: SessionId) => new Failure('not_found', `There is no session "${id}"`)

/** Whose a session is that this actor makes. */
export const ownerOf = ({ user }: Actor): UserId => user ?? firstOwner

/** Who did it and through which door, as events have it. */
export const by = ({ name, door }: Actor) => ({ actor: name, door })

export function sessionFor(parts: Reads, id: SessionId, verb: Verb | null): SessionRow {
  const session = parts.store.sessions.get(id)
  if (session === null) throw noSession(id)
  if (verb !== null && !mayDo(session.state, verb)) {
    throw new Failure(
      'wrong_state',
      `Cannot ${verb} session "${id}": it is ${session.state} (${states[session.state].meaning})`,
      hintFor(session, verb),
    )
  }
  return session
}

/** Whether nothing of the session is to run. */
export function isEnded({ store }: Reads, id: SessionId): boolean {
  const state = store.sessions.get(id)?.state
  return state === undefined || state === 'stopped' || state === 'archived'
}

const hints: Partial<Record<Session['state'], (id: SessionId) => string>> = {
  stopped: (id) => `Start it first: anchorhold start ${id}`,
  paused: (id) => `Resume it first: anchorhold resume ${id}`,
  archived: () => 'An archived session can be read, forked or purged',
}
/** What is there already needs nothing first. */
const leadsTo: Partial<Record<Verb, Session['state']>> = { stop: 'stopped', pause: 'paused', archive: 'archived' }

function hintFor({ id, state }: Pick<SessionRow, 'id' | 'state'>, verb: Verb): { readonly hint?: string } {
  const hint = leadsTo[verb] === state ? undefined : hints[state]?.(id)
  return hint === undefined ? {} : { hint }
}

/** A session as doors show it. */
export function shown(row: SessionRow): Session {
  const {
    options: _o,
    ownerId: _i,
    stateBy: _y,
    standing: _s,
    runAs: _r,
    conversation: _c,
    conversing: _v,
    grants: _g,
    forgetAfter: _f,
    costNanos: _n,
    autonomyGiven: _a,
    checkedOut: _k,
    baseCommit: _m,
    budgetNanos: _b,
    leaseClosed: _l,
    ...session
  } = row
  return session
}
