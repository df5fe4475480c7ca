import { z } from 'zod'
import { LiveFrame, NodeName, booking } from './events.ts'
import { SessionId } from './ids.ts'
import { Nanos } from './money.ts'

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
/** The most that a model call can cost, written before it is made. Without a `usage` of the same call it is booked in full.
 *  One that names a boot is of an older gate: set aside for small calls to come, and given back by another of the same name with a sum of 0. */
export const Reservation = z.object({
  call: CallId,
  nanos: Nanos,
  provider: z.string(),
  model: z.string(),
  simulated: z.boolean(),
  notional: z.boolean(),
  boot: z.string().max(60).optional(),
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

/** A process that may be ended by its number: to a signal, 0 and less mean many, and 1 is the machine's own. */
const Pid = z.int().min(2)

/** What a keeper or the gate sends to the daemon. */
export const ToDaemon = z.discriminatedUnion('t', [
  z.object({ t: z.literal('hello'), version: z.int(), source: SourceName, pid: Pid, last: z.int().min(0) }),
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
