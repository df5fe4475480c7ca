import { z } from 'zod'
import { type FailureCode, failureCodes } from './failures.ts'
import { actionBounds, Digest, HostAction, NetAction, Pin, SpendAction, ToolAction } from './actions.ts'
import { PromptId, RequestId, SessionId } from './ids.ts'
import { Nanos } from './money.ts'
import { ShareAccess } from './people.ts'
import { Autonomy, Effect, Rule } from './policy.ts'
import { LimitInForce, Rung } from './rungs.ts'
import { ContextUse, Network, OnCrash, PromptMode, SessionState, Spend, TurnCause, TurnEnd } from './sessions.ts'
import { CheckedOut } from './workspace.ts'

export const bounds = {
  toolOutputChars: 64 * 1024,
  toolInputChars: 256 * 1024,
  rawChars: 8 * 1024,
  textChars: 4 * 1024 * 1024,
} as const

/** Names one run of streamed text within a session; the finished block is stored under the same name. */
export const BlockId = z.string().min(1).max(64)
export type BlockId = z.infer<typeof BlockId>

/** Set where a sub-agent speaks: the tool call that started it. */
const parent = z.string().max(200).nullable().optional()

/** The agent's own id of the message that this was part of: where a fork may begin. A sub-agent's messages have none. */
const message = z.uuid().optional()
/** What an agent says or thinks, a block at a time. */
const said = z.object({
  block: BlockId,
  text: z.string(),
  parent,
  message,
  /** The agent was cut off here: by a crash, or by the end of its turn. */
  partial: z.boolean().optional(),
  /** Cut off by a failed model call, and said anew by the next one. */
  superseded: z.boolean().optional(),
})

/** Which kind of failure it was, where it was an expected one. */
const failure = { code: z.enum(Object.keys(failureCodes) as [FailureCode, ...FailureCode[]]).optional() }

/** Through which door it was asked for. */
const door = z.string().optional()
/** Who did it, where somebody did. */
const by = { actor: z.string().optional(), door }

/** What may be asked of a person. */
export const RequestAction = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('question'),
    questions: z.array(
      z.object({
        question: z.string(),
        header: z.string().optional(),
        multi: z.boolean(),
        options: z.array(z.object({ label: z.string(), description: z.string().optional() })),
      }),
    ),
  }),
  z.object({ kind: z.literal('plan'), plan: z.string() }),
  ToolAction,
  NetAction,
  HostAction,
  SpendAction,
])
export type RequestAction = z.infer<typeof RequestAction>

/** How far an allowance reaches: this one action, whatever the request's rule covers in this session, or everywhere. */
export const GrantScope = z.enum(['once', 'session', 'rule'])
export type GrantScope = z.infer<typeof GrantScope>

/** How a request was settled. `answers` gives a question's answer by its text. */
export const RequestAnswer = z.object({
  decision: z.enum(['allow', 'deny', 'withdrawn', 'expired']),
  /** Of an allowance; `once` when it is not said. */
  scope: GrantScope.optional(),
  /** Of an allowance: until when it can be used. */
  expires_at: z.int().optional(),
  reason: z.string().max(10_000).optional(),
  answers: z.record(z.string(), z.string()).optional(),
})
export type RequestAnswer = z.infer<typeof RequestAnswer>

export const Tokens = z.object({
  input: z.int().min(0),
  output: z.int().min(0),
  cache_read: z.int().min(0),
  cache_write: z.int().min(0),
})
export type Tokens = z.infer<typeof Tokens>

/** A node of the ledger: the owner, all that a policy or a group covers, a session's own days and ticks, what a session may spend
 *  before somebody is asked, a sub-agent. */
export const NodeName = z.string().regex(/^(owner|(policy|group|session|approval|agent)\/[\w./*-]{1,200})$/)
export type NodeName = z.infer<typeof NodeName>

/** How long a cap holds: for a whole life, a day of UTC, or a tick. */
export const Span = z.enum(['life', 'day', 'tick'])

/** A cap that is raised: for good over a life, and for the one period otherwise. */
export const Raise = z.object({ node: NodeName, span: Span, period: z.int().min(0), cap_nanos: Nanos })
export type Raise = z.infer<typeof Raise>

/** Where a model call is booked: from its reservation on. */
export const booking = {
  /** When it began, by the ledger's clock, which never goes back: the day and the tick that it belongs to. */
  began_at: z.int().min(0).optional(),
  /** The nodes of the ledger that it goes through, beside its session. */
  nodes: z.array(NodeName).max(50).optional(),
  /** The sub-agent that made it, as the agent in the cell calls it: nobody vouches for that. */
  agent: z.string().max(64).optional(),
} as const

/** Every stored event, by type. A type that is not here cannot be written to a log. */
export const eventBodies = {
  'session.created': z.object({
    name: z.string(),
    rung: Rung,
    provider: z.string(),
    model: z.string(),
    simulated: z.boolean(),
    workspace: z.string(),
    budget_nanos: Nanos.nullable(),
    forked_from: SessionId.nullable(),
    /** The last event of that session that this one knows of. */
    at: z.int().min(0).optional(),
    on_crash: OnCrash.optional(),
    spend: Spend.optional(),
    network: Network.optional(),
    autonomy: Autonomy.optional(),
    /** Secrets that its cell is given, by name. */
    secrets_inside: z.array(z.string()).optional(),
    actor: z.string(),
    door,
  }),
  'session.changed': z.object({
    autonomy: Autonomy.optional(),
    /** By somebody who may give more than the policy does. */
    autonomy_given: z.boolean().optional(),
    name: z.string().optional(),
    model: z.string().optional(),
    budget_nanos: Nanos.nullable().optional(),
    actor: z.string(),
    door,
  }),
  /** Somebody may work on it or look at it from now on; or no longer. */
  'session.shared': z.object({ user: z.string(), access: ShareAccess.nullable(), actor: z.string(), door: z.string() }),
  'session.state': z.object({
    from: SessionState.nullable(),
    to: SessionState,
    why: z.string().nullable(),
    /** Interrupted, and about to be taken up again without anybody's doing. */
    goes_on: z.boolean().optional(),
    ...failure,
    ...by,
  }),
  /** Accepted and stored; the agent has not got it yet. */
  'prompt.queued': z.object({
    id: PromptId,
    text: z.string(),
    images: z.int().min(0),
    mode: PromptMode,
    actor: z.string(),
    door,
  }),
  /** Handed to the agent. */
  prompt: z.object({ id: PromptId, text: z.string(), images: z.int().min(0) }),
  /** Handed to another agent: the one that had it died before it had written it down. */
  'prompt.again': z.object({ id: PromptId }),
  /** Taken back before the agent got it. */
  'prompt.dropped': z.object({ id: PromptId, why: z.string(), ...by }),
  text: said,
  thinking: said,
  'tool.started': z.object({
    call: z.string(),
    tool: z.string(),
    input: z.unknown(),
    truncated: z.boolean(),
    parent,
    message,
  }),
  'tool.finished': z.object({
    call: z.string(),
    tool: z.string(),
    output: z.string(),
    truncated: z.boolean(),
    failed: z.boolean(),
    /** Of a command, where the agent told it. */
    exit_code: z.int().min(0).max(255).optional(),
    parent,
    message,
  }),
  /** Somebody has a shell of their own in the cell: what is typed there is theirs, and is not judged as the agent's doing is. */
  'terminal.opened': z.object({ shell: z.string().max(60), actor: z.string(), door: z.string() }),
  'terminal.closed': z.object({ shell: z.string().max(60), why: z.string().max(500) }),
  /** Somebody has put a file into the workspace. */
  'file.uploaded': z.object({ path: z.string().max(5000), bytes: z.int().min(0), actor: z.string(), door: z.string() }),
  /** Another branch or commit is checked out than the event before said, in the words of the cell's own git. */
  'workspace.at': CheckedOut,
  /** Stored before anybody is asked. */
  'request.opened': z.object({
    id: RequestId,
    call: z.string().nullable(),
    action: RequestAction,
    /** What a grant will be bound to, and by which the same thing is known when it is asked again. */
    digest: Digest.optional(),
    pins: z.array(Pin).max(actionBounds.pins).optional(),
    /** Why it is asked: which rule says so, or that none speaks of it. */
    why: z.string().max(2000).optional(),
    /** The rule that would settle it from now on; none where a stricter one would still ask. */
    rule: Rule.optional(),
    rule_refused: z.string().max(2000).optional(),
    /** Of a model call: what the nodes of the ledger above its session must hold for it to be made. */
    raises: z.array(Raise).max(50).optional(),
    expires_at: z.int().optional(),
  }),
  /** Exactly one of these is stored for a request. */
  'request.answered': z.object({ id: RequestId, answer: RequestAnswer, actor: z.string(), door: z.string() }),
  /** "Not now": it stays open, and nobody waits for it. */
  'request.deferred': z.object({ id: RequestId, actor: z.string(), door: z.string() }),
  /** Nobody waits for it any more; it stays open. */
  'request.left': z.object({ id: RequestId }),
  /** Whoever asked has heard the answer, or the agent was told of it when it went on. */
  'request.told': z.object({ id: RequestId }),
  /** What was allowed has happened. A grant bears the name of the request that it came from. */
  'grant.used': z.object({ request: RequestId, digest: Digest, call: z.string().nullable() }),
  /** An action was judged. A tool call is told by its `call`; everything else by the action itself. */
  decision: z.object({
    kind: z.enum(['tool', 'net', 'host', 'spend']),
    effect: Effect,
    /** The rule, grant or setting that decided, in words. */
    by: z.string().max(2000),
    digest: Digest,
    call: z.string().nullable(),
    action: z.union([NetAction, HostAction, SpendAction]).optional(),
    /** It was not done because nobody answered while somebody waited: nobody has refused it. */
    unanswered: z.literal(true).optional(),
  }),
  /** What went through the net window to one host since the event before: written when it has gone quiet, or at the turn's end.
   *  Without a host it is what named none, or the rest of more hosts than are told apart. */
  net: z.object({
    host: z.string().max(253).nullable(),
    port: z.int().min(1).max(65_535).nullable(),
    connections: z.int().min(0),
    bytes_out: z.int().min(0),
    bytes_in: z.int().min(0),
    blocked: z.int().min(0),
    /** Why the last of those was. */
    why: z.string().max(500).nullable(),
    /** Which secrets were put in, and how often. */
    secrets: z.array(z.object({ name: z.string().max(200), count: z.int().min(1) })).max(100),
  }),
  usage: z.object({
    /** Which reservation of the gate this settles. */
    call: z.string().max(60).optional(),
    provider: z.string(),
    model: z.string(),
    tokens: Tokens,
    cost_nanos: Nanos,
    simulated: z.boolean(),
    /** The upstream did not say what it cost, so the worst case or what was seen is booked. */
    estimated: z.boolean(),
    /** Paid by a subscription: the sum is what it would have cost. */
    notional: z.boolean(),
    status: z.int(),
    duration_ms: z.int(),
    /** It cost more than was set aside for it: the session spends nothing more until somebody sets its budget. */
    exceeds: z.literal(true).optional(),
    ...booking,
  }),
  /** Somebody lets a node of the ledger spend more: for good over a life, and in that one period otherwise. */
  'budget.raised': z.object({
    node: NodeName,
    span: Span,
    period: z.int().min(0),
    cap_nanos: Nanos,
    simulated: z.boolean(),
    actor: z.string(),
    door,
  }),
  'turn.started': z.object({ cause: TurnCause, prompt: PromptId.nullable() }),
  'turn.ended': z.object({
    reason: TurnEnd,
    why: z.string().nullable(),
    duration_ms: z.int(),
    /** Prompts that came too late for this turn: the agent has them, and takes them up next. */
    left: z.array(PromptId).optional(),
    /** Background tasks that go on, and may still want what they asked for. */
    tasks: z.int().min(1).optional(),
    /** How much of what the model can be told at once the conversation takes up, as the agent says. */
    context: ContextUse.optional(),
  }),
  'keeper.started': z.object({
    rung: Rung,
    agent: z.string(),
    agent_version: z.string(),
    limits: z.array(LimitInForce),
    resumed: z.boolean(),
  }),
  /** The keeper left on purpose: idle, stopped; or because it could not start its cell or agent. */
  'keeper.left': z.object({ why: z.string(), failed: z.boolean(), ...failure }),
  /** The keeper died, and its cell with it. */
  'keeper.lost': z.object({ why: z.string() }),
  notice: z.object({ level: z.enum(['info', 'warning', 'error']), code: z.string(), message: z.string() }),
  /** Something the agent said that has no event of its own: kept, bounded, never acted upon. */
  'agent.raw': z.object({ kind: z.string(), json: z.string(), truncated: z.boolean() }),
}

export type EventType = keyof typeof eventBodies
export const eventTypes = Object.keys(eventBodies) as [EventType, ...EventType[]]
export type EventBody<T extends EventType> = z.infer<(typeof eventBodies)[T]>
/** An event before it has its number. */
export type NewEvent = { [T in EventType]: { readonly type: T; readonly body: EventBody<T> } }[EventType]

/** A stored event: `seq` counts within its session, without a gap; `pos` over everything. */
export type Event = NewEvent & {
  readonly pos: number
  readonly seq: number
  readonly session: SessionId
  readonly at: number
}

export const Event = /* @__PURE__ */ anyEvent() as unknown as z.ZodType<Event>
function anyEvent() {
  const [first, ...rest] = eventTypes.map((type) =>
    z.object({
      pos: z.int(),
      seq: z.int(),
      session: SessionId,
      at: z.int(),
      type: z.literal(type),
      body: eventBodies[type] as z.ZodType,
    }),
  )
  return z.discriminatedUnion('type', [first!, ...rest])
}

/** Parses what another process claims to be an event. */
export function parseNewEvent(type: string, body: unknown): NewEvent {
  if (!Object.hasOwn(eventBodies, type)) throw new Error(`Unknown event type ${JSON.stringify(type.slice(0, 80))}`)
  const known = type as EventType
  return { type: known, body: eventBodies[known].parse(body) } as NewEvent
}

/** Seen by those who watch now, stored nowhere. A delta says where in its block it belongs. */
export const LiveFrame = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text.delta'), block: BlockId, offset: z.int().min(0), text: z.string(), parent }),
  z.object({ type: z.literal('thinking.delta'), block: BlockId, offset: z.int().min(0), text: z.string(), parent }),
  z.object({ type: z.literal('tool.progress'), call: z.string(), tool: z.string(), elapsed_ms: z.int() }),
])
export type LiveFrame = z.infer<typeof LiveFrame>
