import type { Lease, Node } from '@anchorhold/core/ledger'
import { type SessionAuthority, sessionAuthority } from '@anchorhold/gate/authority'
import type { Account } from '@anchorhold/gate/money/account'
import { openBooks } from '@anchorhold/gate/money/books'
import { type KeptLease, type Leases, type ServedOn, servedOn } from '@anchorhold/gate/money/leases'
import { pause } from '@anchorhold/link/clock'
import { openOutbox } from '@anchorhold/link/outbox'
import { listenAsSource } from '@anchorhold/link/source'
import type { NodeName } from '@anchorhold/protocol/events'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import { GateCommand } from '@anchorhold/protocol/gate-commands'
import { type Settlement, type ToldNodes } from '@anchorhold/protocol/link'
import type { CallEnd } from './agent.ts'
import type { Process } from './machine.ts'

export const gateSocket = 'gate/link.sock'
const gateLock = 'gate/lock'

/** A gate's process: the real books and the real link, and windows that are function calls. */
export interface SimulatedGate {
  readonly process: Process
  /** An action of an agent's that leaves the cell. */
  act(from: Process, session: SessionId, host: string): Promise<'allow' | 'deny' | 'cut'>
  /** A call of an agent in a cell, told how it ended. */
  call(from: Process, session: SessionId): Promise<CallEnd>
  settle(from: Process, session: SessionId): Promise<Settlement | null>
  /** Whether calls of the session are under way, and what its lease says. */
  leaseOf(session: SessionId): Lease | undefined
  nodeOf(name: NodeName): Node | undefined
}

export type SimulatedGateOptions = {
  readonly process: Process
  readonly random: () => number
  /** Leases outlive the gate, and so do the nodes above them. */
  readonly kept: Map<SessionId, KeptLease>
  readonly keptNodes: { nodes: readonly ToldNodes[] }
  /** The disk failed. */
  readonly die: () => void
  /** A call whose reservation is on the disk. */
  readonly safe: (call: string) => void
}

const callPrice = { promptNanos: 1000, perOutputToken: 1, maxTokens: 4000, thinkingTokens: 0 }
const smallCallPrice = { ...callPrice, promptNanos: 50, maxTokens: 100 }
const about = { provider: 'rehearsal', model: 'rehearsal-1', simulated: true, notional: false }
const tokens = { input: 1, output: 1, cache_read: 0, cache_write: 0 }

/** Null when another gate holds the lock. */
export async function simulatedGate({
  process,
  random,
  kept,
  keptNodes,
  die,
  safe,
}: SimulatedGateOptions): Promise<SimulatedGate | null> {
  const { clock } = process
  await process.sometime(50)
  if (!process.lock(gateLock)) return null
  const outbox = await openOutbox({ disk: process.disk('gate/outbox'), now: clock.now, segmentBytes: 2000 })
  let calls = 0
  const leases: Leases = {
    nodes: async () => keptNodes.nodes,
    async putNodes(nodes) {
      await process.sometime()
      keptNodes.nodes = nodes
    },
    list: async () => [...kept.values()],
    async put(lease) {
      await process.sometime()
      kept.set(lease.session, lease)
    },
    async remove(session) {
      await process.sometime()
      kept.delete(session)
    },
  }
  const books = await openBooks({
    outbox,
    leases,
    now: clock.now,
    newCall: () => `call-${process.pid}-${++calls}`,
    soon: () => pause(clock, 20),
    onBroken: die,
  })
  await books.recover()
  type Served = {
    readonly account: Account
    readonly authority: SessionAuthority
    paused: boolean
    waiting: (() => void)[]
    refused: Settlement['refused']
    readonly calls: Set<Promise<CallEnd>>
  }
  const served = new Map<SessionId, Served>()
  let closing = Promise.resolve()
  const serve = (session: SessionId, terms: ServedOn, money: Parameters<typeof books.open>[1]) => {
    const account = books.open(session, money)
    const authority = sessionAuthority({
      terms: terms.authority,
      heardTo: money.spent_to,
      before: books.asks(session),
      account,
      flush: books.flush,
      now: clock.now,
      onChange: () => void account.save().catch(() => {}),
    })
    const one: Served = { account, authority, paused: terms.paused, waiting: [], refused: null, calls: new Set() }
    served.set(session, one)
    return one
  }
  /** Terms whose authority is what it is when they are kept. */
  const lively = ({ authority }: Served, terms: ServedOn): ServedOn => ({
    ...servedOn(terms),
    get authority() {
      return authority.terms
    },
  })
  for (const lease of [...books.kept.values()]) if (books.knows(lease)) serve(lease.session, lease, { ...lease, simulated: true })

  async function handle(raw: unknown): Promise<unknown> {
    const command = GateCommand.parse(raw)
    switch (command.do) {
      case 'ping':
        return { sessions: [...served.keys()], env: [] }
      case 'open': {
        const { session, paused, budget_nanos, spent_nanos, spent_to, ledger, agent_cap_nanos } = command
        const nodes = ledger.nodes.map(({ node }) => node)
        const money = { budget_nanos, spent_nanos, spent_to, closed: false, nodes, agent_cap_nanos, simulated: true }
        // A lease that is on its way out would take the new one along.
        await closing
        books.tell(ledger)
        const found = served.get(session)
        if (found !== undefined) {
          found.account.update(money)
          found.authority.update(command.authority, spent_to)
          setPaused(found, paused)
        }
        const one = found ?? serve(session, command, money)
        await one.account.save(lively(one, command))
        return null
      }
      case 'answer': {
        const { session, request, budget_nanos: _, raises: __, ...answered } = command
        if (books.asks(session).told.has(request)) return { told: true }
        const one = served.get(session)
        if (one === undefined) return { told: false }
        const told = await one.authority.answer({ request, ...answered })
        await one.account.save()
        return told
      }
      case 'policy':
        servedOf(command.session).authority.setPolicy(command.policy)
        return null
      case 'close': {
        const one = served.get(command.session)
        for (const wake of one?.waiting ?? []) wake()
        served.delete(command.session)
        // What is under way is booked before anybody opens the window again.
        closing = closing.then(async () => void (await Promise.allSettled([books.close(command.session), ...(one?.calls ?? [])])))
        await closing
        return null
      }
      case 'ledger':
        books.tell(command)
        await books.keepNodes()
        return null
      case 'pause':
      case 'resume': {
        setPaused(servedOf(command.session), command.do === 'pause')
        return null
      }
      case 'budget': {
        const { account } = servedOf(command.session)
        account.recap(command.budget_nanos)
        await account.save()
        return null
      }
      default:
        throw new Failure('bad_request', command.do)
    }
  }
  function setPaused(one: Served, paused: boolean): void {
    one.paused = paused
    if (!paused) for (const wake of one.waiting.splice(0)) wake()
  }
  function servedOf(session: SessionId): Served {
    const one = served.get(session)
    if (one === undefined) throw new Failure('not_found', session)
    return one
  }

  await listenAsSource({ wire: process.wire, pid: process.pid, socketPath: gateSocket, source: 'gate', outbox, handle })

  /** What the gate does for a caller, who is told that the line was cut should the gate die over it. */
  function onBehalf<T>(from: Process, cut: T, work: () => Promise<T>): Promise<T> {
    return new Promise((resolve) => {
      const answer = (value: T) => void from.sometime().then(() => resolve(value))
      process.onDeath(() => answer(cut))
      if (process.alive)
        void process
          .sometime()
          .then(work)
          .then(answer, () => answer(cut))
      else answer(cut)
    })
  }

  function answerCall(session: SessionId): Promise<CallEnd> {
    const one = served.get(session)
    const call = makeCall(session, one)
    one?.calls.add(call)
    return call.finally(() => one?.calls.delete(call))
  }

  async function makeCall(session: SessionId, one: Served | undefined): Promise<CallEnd> {
    if (one?.paused) await new Promise<void>((resolve) => void one.waiting.push(resolve))
    if (one === undefined || served.get(session) !== one) return 'cut'
    const reserved = one.account.reserve(random() < 0.5 ? smallCallPrice : callPrice, about)
    one.refused = reserved === null ? 'budget' : null
    if (reserved === null) return 'refused'
    await reserved.safe
    safe(reserved.call)
    await process.sometime(100)
    const cost_nanos = Math.floor(random() * reserved.nanos)
    one.account.settle(reserved, { ...about, tokens, cost_nanos, estimated: false, status: 200, duration_ms: 1 })
    return 'answered'
  }

  /** A call over the network that somebody may have to allow. */
  async function answerAct(session: SessionId, host: string, signal: AbortSignal): Promise<'allow' | 'deny' | 'cut'> {
    const one = served.get(session)
    if (one === undefined) return 'cut'
    const action = { kind: 'net' as const, host, port: 443, method: null, path: null }
    return (await one.authority.judge(action, () => signal)).allow ? 'allow' : 'deny'
  }

  return {
    process,
    act(from, session, host) {
      const gone = new AbortController()
      from.onDeath(() => gone.abort())
      return onBehalf<'allow' | 'deny' | 'cut'>(from, 'cut', () => answerAct(session, host, gone.signal))
    },
    call: (from, session) => onBehalf<CallEnd>(from, 'cut', () => answerCall(session)),
    settle: (from, session) =>
      onBehalf<Settlement | null>(from, null, async () => {
        const one = served.get(session)
        return one === undefined ? null : { source: 'gate', n: one.account.last, refused: one.refused }
      }),
    leaseOf: (session) => served.get(session)?.account.lease,
    nodeOf: (name) => books.node(true, name),
  }
}
