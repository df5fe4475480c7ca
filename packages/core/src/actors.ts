import type { UserId } from '@anchorhold/protocol/ids'
import type { Role, ShareAccess } from '@anchorhold/protocol/people'

/** Who asks, and through which door. `system` is the house itself, `nobody` somebody who has not said who they are. */
export type Actor = {
  readonly kind: Role | 'system' | 'nobody'
  /** Null for those who are no user: the house, and nobody. */
  readonly user: UserId | null
  readonly name: string
  readonly door: string
  /** The name of the token that was shown. */
  readonly token?: string
  /** Of somebody at a browser: when they last showed who they are. Programs and the machine's own command line have none. */
  readonly provenAt?: number | null
}

/** The house itself, where nobody asked. */
export const house: Actor = { kind: 'system', user: null, name: 'daemon', door: 'none' }

/** What a session is to those who are not owners of the house. */
export type SessionTies = {
  readonly owner: UserId
  readonly shares: readonly { readonly user: UserId; readonly access: ShareAccess }[]
}

/** Which sessions a permission is about: every one; one's own and those shared to work on; these and those shown; one's own;
 *  none. Where no session is concerned there is only `all` and `none`. */
type Reach = 'all' | 'shown' | 'shared' | 'own' | 'none'
type Row = Readonly<Record<Role, Reach>>
const only = (owner: Reach, member: Reach, viewer: Reach, agent: Reach): Row => ({ owner, member, viewer, agent })

/** What may be asked, and by whom. */
const table = {
  /** The daemon, its rungs and providers; oneself. Lists begin here too: each holds only what one may see. */
  'house.read': only('all', 'all', 'all', 'all'),
  'house.run': only('all', 'none', 'none', 'none'),
  /** Stops what one may work on; an owner stops everything. */
  panic: only('all', 'all', 'none', 'none'),
  'policy.read': only('all', 'all', 'all', 'all'),
  'policy.write': only('all', 'none', 'none', 'none'),
  'people.read': only('all', 'all', 'none', 'none'),
  'people.write': only('all', 'none', 'none', 'none'),
  /** Tokens and logins of one's own. */
  'tokens.own': only('all', 'all', 'none', 'none'),
  /** One's own ways in, and the devices that are logged in. */
  'account.own': only('all', 'all', 'all', 'none'),
  'providers.write': only('all', 'none', 'none', 'none'),
  /** Secrets by name, and the endpoints that they are for; nobody is shown one. */
  'secrets.write': only('all', 'none', 'none', 'none'),
  /** The log of the house, and the whole of it. */
  'audit.all': only('all', 'none', 'none', 'none'),
  'session.create': only('all', 'all', 'none', 'all'),
  /** Beyond what the house gives by itself: a lower rung, extras, observing, settings and files that are kept from a cell. */
  'session.create_wider': only('all', 'all', 'none', 'none'),
  /** Any folder of the host; others have those that the owner names. */
  'session.any_folder': only('all', 'none', 'none', 'none'),
  'session.read': only('all', 'shown', 'shown', 'own'),
  'session.work': only('all', 'shared', 'none', 'own'),
  /** A shell of one's own in the cell: what is typed there is judged by nobody but the windows, so it is for people. */
  'session.shell': only('all', 'shared', 'none', 'none'),
  /** Going on with what somebody else has stopped or paused. */
  'session.take_up': only('all', 'shared', 'none', 'none'),
  'session.answer': only('all', 'shared', 'none', 'none'),
  /** More money, more autonomy, less of a wall. */
  'session.widen': only('all', 'shared', 'none', 'none'),
  'session.share': only('all', 'own', 'none', 'none'),
  'session.purge': only('all', 'own', 'none', 'none'),
} as const satisfies Record<string, Row>

export type Permission = keyof typeof table
export const permissions = Object.keys(table) as readonly Permission[]

/** The one place that says what an actor may do. A permission that is about a session is refused where none is given. */
export function may(actor: Actor, permission: Permission, session?: SessionTies): boolean {
  if (actor.kind === 'system') return true
  if (actor.kind === 'nobody' || actor.user === null) return false
  const reach: Reach = table[permission][actor.kind]
  if (reach === 'all' || reach === 'none' || session === undefined) return reach === 'all'
  if (session.owner === actor.user) return true
  const access = session.shares.find(({ user }) => user === actor.user)?.access
  return reach === 'shown' ? access !== undefined : reach === 'shared' && access === 'work'
}

/** Whose sessions a list holds: null for everybody's. */
export function seenBy(actor: Actor): UserId | null {
  if (actor.kind === 'owner' || actor.kind === 'system') return null
  if (actor.user === null) throw new Error('Nobody has no list')
  return actor.user
}
