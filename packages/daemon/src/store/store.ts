import type { SessionTies } from '@anchorhold/core/actors'
import type { Standing } from '@anchorhold/core/session-states'
import type { Pin } from '@anchorhold/protocol/actions'
import type { LogName } from '@anchorhold/protocol/heads'
import type { HouseEvent, NewHouseEvent } from '@anchorhold/protocol/house'
import type { Span } from '@anchorhold/core/ledger'
import type { Token } from '@anchorhold/protocol/api/access'
import type { Spending, Usage, TurnCost } from '@anchorhold/protocol/api/money'
import type { NetHost, SearchHit } from '@anchorhold/protocol/api/records'
import type { Request } from '@anchorhold/protocol/requests'
import type { Event, NewEvent, NodeName, Raise, RequestAnswer } from '@anchorhold/protocol/events'
import type { PromptId, PushDeviceId, RequestId, SessionId, TokenId, UserId } from '@anchorhold/protocol/ids'
import type { Credential, ProviderKind } from '@anchorhold/protocol/providers'
import type { Grant } from '@anchorhold/protocol/authority'
import type { Nanos } from '@anchorhold/protocol/money'
import type { CheckedOut } from '@anchorhold/protocol/workspace'
import type { Role, Share, ShareAccess, User } from '@anchorhold/protocol/people'
import type { SessionOptions } from '@anchorhold/protocol/session-options'
import type { Image, PromptMode, Session, SessionState, TurnCause } from '@anchorhold/protocol/sessions'

/** What a search found, the best first. */
export type Found = {
  readonly hits: readonly SearchHit[]
  /** Sessions with this name, or whose folder or branch is. */
  readonly sessions: readonly SessionId[]
  /** Whether there are hits beyond the limit. */
  readonly more: boolean
  /** Sessions that have more hits than one may have here. */
  readonly deeper: readonly SessionId[]
}

/** All that the daemon keeps. Where a list is `seenBy` somebody, it holds what that user's own sessions and those shared with them have
 *  to show; null is for everything. */
export interface Tables {
  readonly events: EventLog
  readonly house: HouseLog
  readonly panics: PanicTable
  readonly chains: Chains
  readonly sessions: SessionTable
  readonly prompts: PromptTable
  readonly requests: RequestTable
  readonly tokens: TokenTable
  readonly people: PeopleTable
  readonly logins: LoginTable
  readonly providers: ProviderTable
  readonly push: PushTable
  readonly secrets: SecretTable
  readonly ledger: LedgerTable
  readonly folders: FolderTable
  readonly search: (query: {
    readonly q: string
    readonly session: SessionId | null
    readonly seenBy: UserId | null
    readonly limit: number
    /** How many hits one session may have; null for as many as there are. */
    readonly perSession: number | null
  }) => Found
  /** What the last turns of a session have cost. */
  readonly turns: (session: SessionId, limit: number) => readonly TurnCost[]
  /** What went through net windows, by host: what was blocked first, then by bytes. */
  readonly net: (filter: NetFilter) => readonly NetHost[]
  readonly usage: (only: { readonly session: SessionId | null; readonly seenBy: UserId | null }) => Usage
  /** What was spent, summed up one way. */
  readonly spending: (filter: SpendingFilter) => readonly Spending[]
  /** The model calls of a session: how many, how many of them failed, and how long one took. */
  readonly calls: (session: SessionId) => { readonly requests: number; readonly errors: number; readonly meanMs: number | null }
}

/** Every call is one transaction by itself; `atomically` makes several into one, and none within another. */
export interface Store extends Tables {
  atomically<T>(work: () => T): T
  /** Brings the search index a bounded step further; true when there is more to do. */
  readonly index: () => boolean
  close(): void
}

/** Folders of the host that a cell was in. */
export interface FolderTable {
  /** The repository that it came from, as `host/owner/name`; undefined when no cell was ever in it. */
  repoOf(path: string): string | null | undefined
  /** What is kept first stays. */
  keepRepo(path: string, repo: string | null): void
}

/** An event to be stored. `n` counts within its source; the daemon's own events have none. */
export type Entry = { readonly n: number | null; readonly at: number; readonly event: NewEvent }

export interface EventLog {
  /** Numbers and stores events of one session, and with each whatever it changes: the session's row, its requests and
   *  prompts, and a `session.state` of its own when it moves the session. Returns all that was stored; what a source has
   *  told before is not stored again. */
  append(session: SessionId, source: string, entries: readonly Entry[]): readonly Event[]
  /** By `seq`, ascending. */
  after(session: SessionId, seq: number, limit: number): readonly Event[]
  /** The newest before `seq`, ascending. */
  before(session: SessionId, seq: number, limit: number): readonly Event[]
  /** Over all sessions, by `pos`. */
  afterPos(pos: number, limit: number, seenBy: UserId | null): readonly Event[]
  beforePos(pos: number, limit: number, seenBy: UserId | null): readonly Event[]
  /** The last that was given to an event, whether or not that is still there; 0 when there was none. */
  lastPos(): number
  /** What agents have done and what was decided upon, back to a time, the newest first. */
  acts(before: number, since: number, limit: number, seenBy: UserId | null): readonly Event[]
  /** The newest model calls of all sessions, the newest first. */
  lastCalls(limit: number): readonly Extract<Event, { type: 'usage' }>[]
  /** Takes note of a record that is no event of a log. */
  pass(source: string, n: number): void
  /** The last record of a source that was taken in. */
  lastOf(source: string): number
}

/** What happens in the house and is no session's. It is a table of its own: a session that is none would have to be kept out of
 *  every list, count, state and search. */
export interface HouseLog {
  append(at: number, event: NewHouseEvent): void
  /** The newest before `seq`, ascending. */
  before(seq: number, limit: number): readonly HouseEvent[]
}

/** Who has panicked and what is held by it, until it is lifted. */
export interface PanicTable {
  list(): readonly Panic[]
  put(panic: Panic): void
  /** That of one user, or every one; false where there was none. */
  lift(user: UserId | null): boolean
}
export type Panic = {
  /** Whose sessions are held; null for everybody's. */
  readonly user: UserId | null
  readonly at: number
  readonly actor: string
  readonly door: string
}

/** Every event's hash covers the one before it. */
export interface Chains {
  /** The last event and its hash; null when there is no such log, or its older events have no hashes yet. */
  head(log: LogName): { readonly seq: number; readonly hash: string } | null
  /** A page of a log as it is exported, up to and including `to`. */
  lines(log: LogName, after: number, to: number): readonly { readonly seq: number; readonly line: string }[]
  /** Gives older events their hashes, a bounded step of this session or of any; true when there may be more to do. */
  fill(session?: SessionId): boolean
}

/** A session as stored: what every door shows, and what only the daemon needs to know. */
export type SessionRow = Session & {
  readonly options: SessionOptions
  readonly ownerId: UserId
  /** Who brought it into its state, if somebody did. */
  readonly stateBy: UserId | null
  readonly standing: Standing
  /** The user that keeper and cell run as; null when the daemon is not root. */
  readonly runAs: { readonly uid: number; readonly gid: number } | null
  /** The agent's own id of the conversation, and whether the agent has written any of it. */
  readonly conversation: string
  readonly conversing: boolean
  /** Access list entries that were added to host folders and must be undone. */
  readonly grants: readonly string[]
  /** The last messages that a fork was given of its conversation, the newest first; empty for all. */
  readonly forgetAfter: readonly string[]
  readonly costNanos: number
  readonly budgetNanos: number | null
  /** A call cost more than was set aside for it, and nobody has set a new budget since. */
  readonly leaseClosed: boolean
  /** Its autonomy was chosen by somebody who may give more than the policy does. */
  readonly autonomyGiven: boolean
  /** What its repository had checked out when that was last told. */
  readonly checkedOut: CheckedOut
  /** What it had checked out before the first turn: null where there was no commit, `unknown` in a session older than this. */
  readonly baseCommit: string | null
}
export type NewSessionRow = Pick<SessionRow, 'id' | 'options' | 'runAs' | 'conversation' | 'conversing' | 'grants'> &
  Partial<Pick<SessionRow, 'forgetAfter' | 'ownerId'>>

export interface SessionTable {
  /** The rest of the row follows from the `session.created` event that must be appended in the same transaction. */
  insert(row: NewSessionRow): void
  get(id: SessionId): SessionRow | null
  list(filter: {
    readonly archived: boolean
    readonly state: SessionState | null
    /** Only those that wait for an answer. */
    readonly needing?: boolean
    readonly before: number | null
    readonly limit: number
    readonly seenBy: UserId | null
  }): readonly SessionRow[]
  /** All of them, in the order of their ids. */
  idsAfter(id: string, limit: number): readonly SessionId[]
  /** Sessions whose log says that a keeper tends them. */
  tended(): readonly SessionRow[]
  /** Sessions that a crash cut short and that nobody has gone on with. */
  crashed(): readonly SessionId[]
  counts(seenBy: UserId | null): Partial<Record<SessionState, number>>
  /** How many sessions of a user are not ended. */
  openOf(owner: UserId): number
  /** Other sessions that work in the same folder. */
  sharing(session: Pick<SessionRow, 'id' | 'workspace'>): readonly SessionRow[]
  /** Whether any session works in this folder as this user; null for the daemon's own. */
  isWorkedIn(workspace: string, uid: number | null): boolean
  setGrants(id: SessionId, grants: readonly string[]): void
  /** Those that have grants. */
  granted(): readonly SessionId[]
  /** A uid from this one on that no session has, given to one caller only. */
  takeUid(first: number): number
  purge(id: SessionId): void
}

export type PromptRow = {
  readonly id: PromptId
  readonly session: SessionId
  readonly text: string
  readonly images: readonly Image[]
  readonly mode: PromptMode
  readonly cause: TurnCause
  readonly queuedAt: number
}
/** Where a prompt is: it waits, an agent was given it, its turn has ended, or somebody took it back before. */
type PromptState = 'queued' | 'delivered' | 'done' | 'dropped'
export interface PromptTable {
  insert(row: PromptRow, key: string | null): void
  get(id: PromptId): (PromptRow & { readonly state: PromptState }) | null
  /** The prompt that was stored under an idempotency key. */
  byKey(session: SessionId, key: string): PromptRow | null
  queued(session: SessionId): readonly PromptRow[]
  /** Those that an agent was given and whose turn has not ended, or ended by a crash. */
  unfinished(session: SessionId): readonly PromptRow[]
  sessionsWithQueued(): readonly SessionId[]
}

/** A request as stored: what every door shows, and what only the daemon needs to know. */
export type RequestRow = Request & {
  readonly pins: readonly Pin[]
  /** Of a model call: what the nodes above its session lacked when it was asked for. */
  readonly raises: readonly Raise[]
  /** Whoever asked has heard the answer, or needs none. */
  readonly told: boolean
  /** What was allowed once has been done, or begun. */
  readonly used: boolean
}
export interface RequestTable {
  get(id: RequestId): RequestRow | null
  /** The newest. Of all sessions' open ones, the first few of each. */
  list(filter: {
    readonly openOnly: boolean
    readonly session: SessionId | null
    readonly seenBy: UserId | null
  }): readonly RequestRow[]
  /** The sessions that have open ones, with when the first of them was opened, and when the first is over. */
  waiting(): readonly { readonly session: SessionId; readonly opened_at: number; readonly expires_at: number | null }[]
  /** Answered ones that whoever asked has not heard of, of one session or of all. */
  untold(session: SessionId | null): readonly RequestRow[]
  /** Open ones whose time is over. */
  overdue(now: number): readonly RequestId[]
  /** What was allowed to a session and can be used now. */
  grants(session: SessionId, now: number): readonly StoredGrant[]
  /** Whether a person has approved a plan of the session's. */
  hasApprovedPlan(session: SessionId): boolean
}
export type StoredGrant = Grant & { readonly kind: Request['action']['kind'] }
export type { RequestAnswer }

export type TokenRow = Omit<Token, 'user'> & {
  readonly user: UserId
  readonly hash: string
  readonly role: 'link' | 'bearer' | 'cookie'
  /** Of a device: where it last called from, what its browser calls itself, and when it last showed who sits at it. */
  readonly address: string | null
  readonly agent: string | null
  readonly proved_at: number | null
}
export interface TokenTable {
  insert(row: TokenRow): void
  byHash(hash: string): TokenRow | null
  get(id: TokenId): TokenRow | null
  list(): readonly TokenRow[]
  touch(id: TokenId, at: number, address: string | null): void
  prove(id: TokenId, at: number): void
  /** True when it was there. */
  remove(id: TokenId): boolean
  removeExpired(now: number): void
  removeOf(user: UserId): void
  /** Login links that nobody has followed yet. */
  removeLinksOf(user: UserId): void
  /** Session-creating keys: the session made under this key by this actor, if any. */
  sessionByKey(actor: string, key: string): { readonly session: SessionId; readonly digest: string } | null
  keepSessionKey(actor: string, key: string, session: SessionId, digest: string): void
}

export type PasskeyRow = {
  readonly id: string
  readonly user: UserId
  readonly name: string
  /** The host name that it is good for. */
  readonly site: string
  readonly publicKey: Uint8Array
  readonly counter: number
  readonly created_at: number
  readonly used_at: number | null
}
/** How people show who they are. Passwords and recovery codes are hashes; an authenticator's secret is what its codes are made of. */
export interface LoginTable {
  any(): { readonly password: boolean; readonly passkey: boolean }
  password(user: UserId): string | null
  setPassword(user: UserId, hash: string, at: number): void
  removePassword(user: UserId): boolean
  passkey(id: string): PasskeyRow | null
  passkeys(user: UserId): readonly PasskeyRow[]
  addPasskey(row: PasskeyRow): void
  /** False when this count was seen before. */
  usePasskey(id: string, counter: number, at: number): boolean
  removePasskey(user: UserId, id: string): boolean
  totp(user: UserId): { readonly secret: Uint8Array; readonly lastStep: number } | null
  setTotp(user: UserId, secret: Uint8Array, lastStep: number, codes: readonly string[]): void
  /** False when this step, or a later one, was used before. */
  useStep(user: UserId, step: number): boolean
  removeTotp(user: UserId): boolean
  recoveryCodes(user: UserId): number
  /** True once for each. */
  useRecoveryCode(user: UserId, hash: string): boolean
  removeOf(user: UserId): void
}

/** Those who are not removed, and what is shared with them. */
export interface PeopleTable {
  insert(user: User): void
  get(id: UserId): User | null
  byName(name: string): User | null
  list(): readonly User[]
  setRole(id: UserId, role: Role, policy: string | null): void
  /** Nothing is shared with them any more; their sessions stay. */
  remove(id: UserId, at: number): void
  /** Whose a session is and who else may do what with it; null when there is no such session. */
  ties(session: SessionId): SessionTies | null
  shares(session: SessionId): readonly Share[]
  share(session: SessionId, user: UserId, access: ShareAccess): void
  unshare(session: SessionId, user: UserId): boolean
}

export interface LedgerTable {
  /** When the latest call began that is booked, to the minute. */
  latestMs(): number
  /** What went through a node: ever, and in the day and the tick of a moment. */
  spent(node: NodeName, simulated: boolean, atMs: number, tickMs: number): Readonly<Record<Span, Nanos>>
  /** Every node that something went through or that has a cap. */
  nodes(): readonly { readonly node: NodeName; readonly simulated: boolean }[]
  /** Whether play money, real money or both are in the books of a node. */
  seenAs(node: NodeName): readonly boolean[]
  /** Caps that were set at a door. */
  caps(node: NodeName): Partial<Record<Span, Nanos>>
  /** Null takes the cap away; whatever was raised is what it was. */
  setCap(node: NodeName, span: Span, nanos: Nanos | null): void
  raise(node: NodeName, simulated: boolean, span: Span, period: number, nanos: Nanos): void
  /** The last raise of each span. It counts in its own period, and a life has but one. */
  raises(node: NodeName, simulated: boolean): readonly { readonly span: Span; readonly period: number; readonly nanos: Nanos }[]
}

/** Which calls a list of spending is about. */
/** Of one session, or of all that somebody sees. */
export type NetFilter = { readonly session: SessionId | null; readonly since: number; readonly seenBy: UserId | null }

export type SpendingFilter = {
  readonly session: SessionId | null
  readonly seenBy: UserId | null
  readonly by: 'session' | 'group' | 'day' | 'model'
  /** The first day, as 2026-11-30. */
  readonly since: string | null
}

export type ProviderRow = {
  readonly name: string
  readonly kind: ProviderKind
  readonly baseUrl: string | null
  readonly auth: 'api_key' | 'oauth' | 'bearer' | 'none'
  readonly credential: Credential
  readonly model: string
}
/** A secret of the house. The box is ciphertext that only the gate can open. */
export type SecretRow = {
  readonly name: string
  readonly box: string
  readonly mask: string
  readonly changedAt: number
  /** Whether a session may be given it. */
  readonly inside: boolean
}
export interface SecretTable {
  put(row: SecretRow): void
  get(name: string): SecretRow | null
  list(): readonly SecretRow[]
  remove(name: string): boolean
}
export interface ProviderTable {
  put(row: ProviderRow): void
  get(name: string): ProviderRow | null
  list(): readonly ProviderRow[]
  remove(name: string): boolean
  /** The provider of sessions that name none. */
  inUse(): string | null
  use(name: string | null): void
}

/** A device that is told when its user is needed, by way of its browser's push service. */
export type PushDeviceRow = {
  readonly id: PushDeviceId
  readonly user: UserId
  /** The login that asked for it. */
  readonly token: TokenId
  readonly name: string
  readonly endpoint: string
  readonly p256dh: string
  readonly auth: string
  readonly created_at: number
}
export interface PushTable {
  insert(row: PushDeviceRow): void
  of(user: UserId): readonly PushDeviceRow[]
  all(): readonly PushDeviceRow[]
  remove(id: PushDeviceId): void
  removeEndpoint(endpoint: string): void
}
