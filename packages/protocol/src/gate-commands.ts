import { z } from 'zod'
import { Authority, Grant } from './authority.ts'
import { BoundCredential } from './credentials.ts'
import { Raise, RequestAnswer } from './events.ts'
import { SessionRepo } from './forges.ts'
import { Head } from './heads.ts'
import { RequestId, SessionId } from './ids.ts'
import { ToldNodes } from './link.ts'
import { Nanos } from './money.ts'
import { Policy } from './policy.ts'
import { Provider } from './providers.ts'
import { Slowness } from './rungs.ts'
import { Network, Spend } from './sessions.ts'

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
  /** Of the session's cell: what the window waits for from there may take that much longer. */
  slowness: Slowness.default(1),
})
export type NetTerms = z.infer<typeof NetTerms>

export const GateCommand = z.discriminatedUnion('do', [
  z.object({ do: z.literal('ping') }),
  /** Opens the session's windows in `folder`, or updates them when they are open. */
  z.object({
    do: z.literal('open'),
    session: SessionId,
    folder: z.string(),
    /** How the session's agent speaks to its model: a name in the gate's own table. */
    dialect: z.string().max(40).default('messages'),
    provider: Provider,
    budget_nanos: Nanos.nullable(),
    /** What the daemon's log says was spent, up to which of the gate's records: what comes after is the gate's to add. */
    spent_nanos: Nanos,
    spent_to: z.int().min(0),
    /** A call cost more than was set aside for it, and nobody has set a new budget since. */
    closed: z.boolean().default(false),
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
    /** Whether a cell is about to be made, which has to know whom to trust. */
    certificate: z.boolean().default(true),
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

/** The result of opening: the certificate of whom the cell must trust where its TLS is opened, if that was asked for and it has a net
 *  window. */
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
