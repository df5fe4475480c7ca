import { SessionRepo } from './forges.ts'
import { z } from 'zod'
import { actionBounds, Digest, Pin } from './actions.ts'
import { BoundCredential } from './credentials.ts'
import { booking, LiveFrame, NodeName, Raise, RequestAnswer } from './events.ts'
import { Head } from './heads.ts'
import { PromptId, RequestId, SessionId } from './ids.ts'
import { Nanos } from './money.ts'
import { Policy, Rule } from './policy.ts'
import { ContainerEngine, LimitInForce, LimitName, Rung } from './rungs.ts'
import { ShellId, TerminalSize } from './terminal.ts'
import { CheckedOut, WorkspaceAsk } from './workspace.ts'
import { Extras, Image, Network, PromptMode, RepoFilter, Spend, TurnCause } from './sessions.ts'

/** Raised with every change that a peer of the previous release would not understand. A daemon attaches to keepers and a gate of
 *  its own version and of the one before, so that agents finish their turns while it is replaced. */
export const linkVersion = 1
/** A frame is one line of JSON; a longer one ends the connection. */
export const frameBytesMax = 64 * 1024 * 1024

/** Who wrote a record: `gate`, or `keeper/ses_…`. */
export const SourceName = z.string().regex(/^(gate|keeper\/ses_[0-9a-z]{16})$/)
export type SourceName = z.infer<typeof SourceName>

/** One entry of an outbox. `n` counts per source, without a gap, across restarts of its process. */
export const OutboxRecord = z.object({
  n: z.int().min(1),
  at: z.int(),
  session: SessionId,
  type: z.string().max(60),
  body: z.unknown(),
  /** Stored only once that record of another source is stored. */
  after: z.object({ source: SourceName, n: z.int() }).optional(),
})
export type OutboxRecord = z.infer<typeof OutboxRecord>

const Caps = z.object({ life: Nanos.nullable(), day: Nanos.nullable(), tick: Nanos.nullable() })

/** A node as the daemon knows it. */
export const LedgerNode = z.object({
  node: NodeName,
  caps: Caps,
  tick_ms: z.int().min(60_000).multipleOf(60_000),
  /** Whoever needs more is asked for it, whatever the session says of its own budget. */
  asks: z.boolean(),
  /** In the periods of the moment that is told along with it. */
  spent: z.object({ life: Nanos, day: Nanos, tick: Nanos }),
})
export type LedgerNode = z.infer<typeof LedgerNode>

/** What the daemon knows of some nodes. Play money has nodes of its own. */
export const ToldNodes = z.object({
  simulated: z.boolean(),
  /** The moment that the sums are for: no call that they include began later. */
  at: z.int().min(0),
  /** Up to which of the gate's records; what comes after is the gate's to add. */
  to: z.int().min(0),
  nodes: z.array(LedgerNode).max(1000),
})
export type ToldNodes = z.infer<typeof ToldNodes>

/** Names one model call, from its reservation to its usage. */
export const CallId = z.string().min(1).max(60)
/** The most that a model call can cost, written before it is made. Without a `usage` of the same call it is booked in full. */
export const Reservation = z.object({
  call: CallId,
  nanos: Nanos,
  provider: z.string(),
  model: z.string(),
  simulated: z.boolean(),
  notional: z.boolean(),
  ...booking,
})
export type Reservation = z.infer<typeof Reservation>

/** Records that a process writes for itself: they take a number in its outbox, and are no events of a session's log. */
const linkBodies = { reservation: Reservation } as const
export type LinkRecord = {
  [T in keyof typeof linkBodies]: { readonly type: T; readonly body: z.infer<(typeof linkBodies)[T]> }
}[keyof typeof linkBodies]
export const isLinkOnly = (type: string) => Object.hasOwn(linkBodies, type)

/** What the daemon sends to a keeper or to the gate. */
export const FromDaemon = z.discriminatedUnion('t', [
  z.object({ t: z.literal('hello'), version: z.int(), after: z.int().min(0) }),
  z.object({ t: z.literal('ack'), n: z.int().min(0) }),
  z.object({ t: z.literal('do'), id: z.int(), command: z.unknown() }),
])
export type FromDaemon = z.infer<typeof FromDaemon>

/** What a keeper or the gate sends to the daemon. */
export const ToDaemon = z.discriminatedUnion('t', [
  z.object({ t: z.literal('hello'), version: z.int(), source: SourceName, pid: z.int(), last: z.int().min(0) }),
  z.object({ t: z.literal('record'), record: OutboxRecord }),
  z.object({ t: z.literal('live'), session: SessionId, frame: LiveFrame }),
  z.discriminatedUnion('ok', [
    z.object({ t: z.literal('done'), id: z.int(), ok: z.literal(true), result: z.unknown() }),
    z.object({
      t: z.literal('done'),
      id: z.int(),
      ok: z.literal(false),
      code: z.string(),
      message: z.string(),
      hint: z.string().optional(),
    }),
  ]),
])
export type ToDaemon = z.infer<typeof ToDaemon>

const Pins = z.array(Pin).max(actionBounds.pins)

/** What was allowed and is not used up, as it is told to whoever checks it. It bears the name of its request. */
export const Grant = z.object({
  request: RequestId,
  digest: Digest,
  pins: Pins,
  /** `once` is used up by the first action that it lets through. */
  scope: z.enum(['once', 'session']),
  /** Of a session's: it covers all that this rule does, and not the one action alone. */
  rule: Rule.nullable(),
  /** Of spending: the sum that whoever allowed it was shown. */
  nanos: z.int().nullable().optional(),
  expires_at: z.int().nullable(),
  /** Who gave it. */
  actor: z.string(),
})
export type Grant = z.infer<typeof Grant>

/** A request that is open: whoever does the same again waits for the same answer. */
export const Asked = z.object({ request: RequestId, digest: Digest, pins: Pins, expires_at: z.int().nullable() })
export type Asked = z.infer<typeof Asked>

/** What decides over a session's actions, for whoever checks them. */
export const Authority = z.object({ policy: Policy, grants: z.array(Grant), asked: z.array(Asked) })
export type Authority = z.infer<typeof Authority>

/** Whether somebody waited for the answer that was told, and has heard it. */
export const Told = z.object({ told: z.boolean() })
export type Told = z.infer<typeof Told>

/** What a keeper is started with, on its standard input. It holds no secret. */
export const KeeperStart = z.strictObject({
  session: SessionId,
  /** The daemon that starts it. One that finds that daemon gone before it holds its lock leaves again: another may have tended the
   *  session meanwhile, and what that one left has to be stored first. */
  started_by: z.int(),
  /** The session's own folder: outbox, socket, lock, agent home. */
  folder: z.string(),
  workspace: z.string(),
  /** It is a copy without history: it gets a first commit of its own. */
  snapshot: z.boolean(),
  /** What its repository had checked out, as far as the log says: only what differs is told. */
  checked_out: CheckedOut,
  /** Which files of the workspace the cell does not see. */
  repo_filter: RepoFilter,
  /** The folder where it is remembered which files were hidden in this workspace before. */
  hidden: z.string(),
  /** The folder with the session's windows. */
  windows: z.string(),
  /** A folder of downloads that it shares with other sessions of its workspace; null for none. */
  caches: z.string().nullable(),
  rung: Rung,
  /** The root folder of the session's image; null for the host's own programs. */
  root: z.string().nullable(),
  provider: z.string(),
  model: z.string(),
  extras: Extras,
  /** Host files that are needed inside: the agent's own program; Node; what forwards the cell's loopback; what makes text of pages; the program that
   *  starts processes in cells which have but one stream of bytes. */
  files: z.strictObject({
    ...{ program: z.string(), node: z.string(), forwarder: z.string(), reader: z.string(), inside: z.string() },
    /** What makes containers; Podman without root where it is not said. */
    engine: ContainerEngine.optional(),
  }),
  agent_version: z.string(),
  /** The agent's own id of the conversation; `resume` says whether it exists already. */
  conversation: z.uuid(),
  resume: z.boolean(),
  /** The last messages that a fork is to know of, the newest first: what comes after the first of them that the agent has
   *  written down is forgotten. Empty for all to be kept. */
  forget_after: z.array(z.uuid()),
  /** Prompts of a turn that a crash cut short. The agent gets those that it has no memory of once more, before any other. */
  unfinished: z.array(z.object({ id: PromptId, text: z.string(), images: z.array(Image) })),
  /** Go on with that turn without being asked. */
  take_up: z.boolean(),
  authority: Authority,
  tools: z.array(z.string()).nullable(),
  system_prompt: z.string().nullable(),
  timeout_ms: z.int().nullable(),
  idle_ms: z.int(),
  /** The same for a keeper that was started ahead of a prompt which did not come. */
  unused_ms: z.int(),
  plan: z.boolean(),
  workspace_settings: z.enum(['ignore', 'load']),
  toolchains: z.array(z.string()),
  /** Whose home the toolchains are looked for in. */
  owner_home: z.string(),
  git_identity: z.object({ name: z.string(), email: z.string() }).nullable(),
  /** What the cell reaches beside its model. With `proxy_only` its programs find the net window on the cell's loopback. */
  network: Network,
  /** Variables of the cell's programs: placeholders of secrets, and the like. */
  env: z.record(z.string(), z.string()),
  /** Certificates that programs in the cell trust beside the usual ones: the session's own authority, and those of the owner's. */
  net_ca: z.string().nullable(),
  /** Hosts of git forges, whose addresses for ssh are taken for those of HTTPS. */
  forges: z.array(z.string()),
  /** How the agent reaches its model window: by socket, or through a forwarder on the cell's own loopback. */
  model_route: z.enum(['socket', 'forwarder']),
  limits: z.object({
    memory_bytes: z.int(),
    processes: z.int(),
    cpus: z.number(),
    disk_bytes: z.int(),
    file_bytes: z.int(),
    open_files: z.int(),
    tmp_bytes: z.int(),
  }),
  /** Limits without which the cell must not stand. */
  require_limits: z.array(LimitName),
  /** How the gate is started, should it die while the daemon is away; null where only the daemon can. */
  gate: z.strictObject({ node: z.string(), script: z.string(), folder: z.string(), log: z.string() }).nullable(),
  /** Control group folders that were handed to the session's uid; empty where none could be. */
  cgroups: z.array(z.string()),
})
export type KeeperStart = z.infer<typeof KeeperStart>

/** What a keeper is told before there is a session for it: enough to have its cell stand by then. A line of its own, ahead of
 *  the `KeeperStart`. */
export const KeeperPlace = z.strictObject({
  place: KeeperStart.pick({
    session: true,
    folder: true,
    workspace: true,
    windows: true,
    rung: true,
    root: true,
    extras: true,
    files: true,
    limits: true,
    cgroups: true,
  }),
})
export type KeeperPlace = z.infer<typeof KeeperPlace>

export const KeeperCommand = z.discriminatedUnion('do', [
  z.object({ do: z.literal('ping') }),
  z.object({
    do: z.literal('prompt'),
    id: PromptId,
    text: z.string(),
    images: z.array(Image),
    mode: PromptMode,
    cause: TurnCause,
  }),
  z.object({ do: z.literal('interrupt') }),
  z.object({ do: z.literal('pause') }),
  z.object({ do: z.literal('resume') }),
  /** A request was answered, in the log already. The result is a `Told`; to be told twice does no harm. */
  z.object({
    do: z.literal('answer'),
    request: RequestId,
    answer: RequestAnswer,
    actor: z.string(),
    grant: Grant.nullable(),
  }),
  /** What decides is another policy from here on. */
  z.object({ do: z.literal('policy'), policy: Policy }),
  /** Nobody answers for now: end the turn as `waiting`, and leave. What was asked stays open. */
  z.object({ do: z.literal('park'), why: z.string() }),
  z.object({ do: z.literal('model'), model: z.string() }),
  /** Looks at the workspace from inside the cell. */
  z.object({ do: z.literal('workspace'), asked: WorkspaceAsk }),
  /** Which commands the agent knows. */
  z.object({ do: z.literal('commands') }),
  /** A shell of a person's in the cell, on a terminal of its own. What it shows is read after a number of bytes, for as long as
   *  there is none: nothing is pushed, so whoever is slow is waited for. */
  z.object({ do: z.literal('shell.open'), ...TerminalSize.shape, actor: z.string(), door: z.string() }),
  z.object({ do: z.literal('shell.write'), shell: ShellId, base64: z.string() }),
  z.object({ do: z.literal('shell.size'), shell: ShellId, ...TerminalSize.shape }),
  z.object({ do: z.literal('shell.read'), shell: ShellId, after: z.int().min(0) }),
  z.object({ do: z.literal('shell.close'), shell: ShellId, why: z.string() }),
  /** End the turn, the agent and the cell, journal why, and leave. */
  z.object({ do: z.literal('leave'), why: z.string() }),
])
export type KeeperCommand = z.infer<typeof KeeperCommand>

/** Where a credential comes from. `sealed` is ciphertext that only the gate can open. */
export const Credential = z.discriminatedUnion('from', [
  z.object({ from: z.literal('none') }),
  z.object({ from: z.literal('env'), name: z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,200}$/) }),
  z.object({ from: z.literal('file'), path: z.string() }),
  z.object({ from: z.literal('sealed'), box: z.string() }),
])
export type Credential = z.infer<typeof Credential>

export const ProviderKind = z.enum(['anthropic', 'openrouter', 'local', 'rehearsal'])
export type ProviderKind = z.infer<typeof ProviderKind>

/** A provider as the gate knows it. Its destination comes from the owner's configuration alone. */
export const Provider = z.object({
  name: z.string(),
  kind: ProviderKind,
  base_url: z.url().nullable(),
  credential: Credential,
  /** `api_key` is sent as x-api-key, `oauth` as a bearer token of the owner's own login. */
  auth: z.enum(['api_key', 'oauth', 'bearer', 'none']),
})
export type Provider = z.infer<typeof Provider>

/** What came of a test call to a provider. */
export const ProviderVerdict = z.object({
  verdict: z.enum(['ok', 'refused', 'unreachable', 'incompatible']),
  message: z.string(),
})
export type ProviderVerdict = z.infer<typeof ProviderVerdict>

/** How many model calls and tokens an actor may have in a minute, over all its sessions. */
export const Rates = z.object({
  actor: z.string(),
  requests_per_minute: z.int().min(1).nullable(),
  tokens_per_minute: z.int().min(1).nullable(),
})
export type Rates = z.infer<typeof Rates>

/** What a cell's model window may do. */
export const ModelRules = z.object({
  /** Body fields, endpoints and server tools beyond what agents need, each named by the owner. */
  allow: z.array(z.string()),
  rates: Rates.optional(),
})

/** What the net window of a session goes by, beside its rules. */
export const NetTerms = z.object({
  /** Certificates of authorities that the owner trusts beside those that the machine does, as PEM. */
  ca: z.string().nullable().default(null),
  /** Where connections go that are for these hosts and ports, each an address and a port. */
  mirrors: z.record(z.string(), z.string()).default({}),
  /** Forges, and what the session has at each of them. */
  forges: z.record(z.string(), SessionRepo.nullable()).default({}),
  credentials: z.array(BoundCredential).max(1000).default([]),
  /** Hosts of model providers: nobody calls them with a key of their own. */
  model_hosts: z.array(z.string()).default([]),
})
export type NetTerms = z.infer<typeof NetTerms>

export const GateCommand = z.discriminatedUnion('do', [
  z.object({ do: z.literal('ping') }),
  /** Opens the session's windows in `folder`, or updates them when they are open. */
  z.object({
    do: z.literal('open'),
    session: SessionId,
    folder: z.string(),
    provider: Provider,
    budget_nanos: Nanos.nullable(),
    /** What the daemon's log says was spent, up to which of the gate's records: what comes after is the gate's to add. */
    spent_nanos: Nanos,
    spent_to: z.int().min(0),
    paused: z.boolean().default(false),
    spend: Spend.default('stop'),
    rules: ModelRules,
    /** Whether there is a net window. */
    network: Network.default('none'),
    net: NetTerms.prefault({}),
    /** The nodes above the session, from the owner down. */
    ledger: ToldNodes.default({ simulated: false, at: 0, to: 0, nodes: [] }),
    /** What one sub-agent may spend. */
    agent_cap_nanos: Nanos.nullable().default(null),
    authority: Authority,
  }),
  /** Caps or sums of nodes have changed: calls that were held for want of money go on, as far as it reaches now. */
  z.object({ do: z.literal('ledger'), ...ToldNodes.shape }),
  z.object({ do: z.literal('policy'), session: SessionId, policy: Policy }),
  z.object({ do: z.literal('close'), session: SessionId }),
  z.object({ do: z.literal('pause'), session: SessionId }),
  z.object({ do: z.literal('resume'), session: SessionId }),
  /** Calls that were held for want of money go on, as far as it reaches. */
  z.object({ do: z.literal('budget'), session: SessionId, budget_nanos: Nanos.nullable() }),
  /** What the budget must be for a held call to go on. */
  z.object({ do: z.literal('price'), session: SessionId, request: RequestId }),
  /** A request was answered, in the log already; for a held model call, with what the budget is and what nodes of the ledger may
   *  spend from now on. The result is a `Told`; to be told twice does no harm. */
  z.object({
    do: z.literal('answer'),
    session: SessionId,
    request: RequestId,
    answer: RequestAnswer,
    actor: z.string(),
    grant: Grant.nullable(),
    budget_nanos: Nanos.nullable().optional(),
    raises: z.array(Raise).default([]),
  }),
  /** Closes every window and revokes every lease at once. */
  z.object({ do: z.literal('panic') }),
  z.object({ do: z.literal('seal'), plaintext: z.string(), inside: z.boolean().optional() }),
  /** What the owner has marked for cells, for one that is being started. */
  z.object({ do: z.literal('open_inside'), boxes: z.array(z.string()).max(100) }),
  /** Makes a new key, and gives what these hold under it. The key before it opens what is left until `resealed`. */
  z.object({ do: z.literal('reseal'), boxes: z.array(z.string()).max(10_000) }),
  /** All that is stored, as it is stored now: when every one of these is under the new key, the old one goes. */
  z.object({ do: z.literal('resealed'), boxes: z.array(z.string()).max(10_000) }),
  /** Signs where a log stands; nothing of another shape is ever signed. Without a head, only says with which key. */
  z.strictObject({ do: z.literal('sign'), head: Head.nullable() }),
  /** Whether the credential is there, without using it: null, or what is missing. */
  z.object({ do: z.literal('check'), provider: Provider }),
  /** One small call with the credential, to say whether it works. */
  z.object({ do: z.literal('test'), provider: Provider, model: z.string() }),
  z.object({ do: z.literal('leave') }),
])
export type GateCommand = z.infer<typeof GateCommand>

/** The result of opening: the certificate of whom the cell must trust where its TLS is opened, if it has a net window. */
export const OpenWindows = z.object({ authority: z.string().nullable() })
export type OpenWindows = z.infer<typeof OpenWindows>

/** The result of the gate's price: the session's own budget (null where it has none), and what the nodes above lack. */
export const Price = z.object({ budget_nanos: Nanos.nullable(), raises: z.array(Raise).default([]) })
export type Price = z.infer<typeof Price>

/** The result of the gate's ping. */
export const GateHealth = z.object({
  /** Sessions that it serves, or has kept the terms of. */
  sessions: z.array(SessionId),
  /** The names of the variables that it was started with. */
  env: z.array(z.string()),
})

/** What the gate answers on its own path of the model window: the last record that this session's calls have made. */
export const Settlement = z.object({
  source: SourceName,
  n: z.int().min(0),
  /** Why the last call was refused here, if it was. */
  refused: z.enum(['budget', 'asked', 'credential', 'rules']).nullable(),
})
export type Settlement = z.infer<typeof Settlement>
export const settlePath = '/anchorhold/settle'
/** Its answer begins and never ends, so that a keeper hears when the gate is gone. */
export const watchPath = '/anchorhold/watch'

/** The result of a keeper's ping. */
export const KeeperHealth = z.object({
  state: z.enum(['idle', 'working', 'waiting', 'paused', 'leaving']),
  limits: z.array(LimitInForce),
  idle_ms: z.int(),
})
