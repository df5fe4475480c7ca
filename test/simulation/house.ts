import type { Actor } from '@anchorhold/core/actors'
import { saidIn } from '@anchorhold/core/open-blocks'
import { takesUp } from '@anchorhold/core/session-states'
import { deliverAll } from '@anchorhold/daemon/app/prompts/deliver'
import { openWindows } from '@anchorhold/daemon/app/keepers/keeper-start'
import { authorityFor } from '@anchorhold/daemon/app/policy/authority'
import { inbox as makeInbox } from '@anchorhold/daemon/app/requests/inbox'
import { hearOut } from '@anchorhold/daemon/app/keepers/lost-keeper'
import type { Parts } from '@anchorhold/daemon/app/parts'
import { attempts } from '@anchorhold/daemon/logins/attempts'
import { passwords } from '@anchorhold/daemon/logins/passwords'
import { fakePolicies } from '@anchorhold/daemon/policy/fake-policies'
import { reconciler } from '@anchorhold/daemon/app/keepers/reconcile'
import { readConfig } from '@anchorhold/daemon/config'
import { folders as foldersOf } from '@anchorhold/daemon/folders'
import { hub as makeHub } from '@anchorhold/daemon/hub'
import { presence } from '@anchorhold/daemon/presence'
import { pushService } from '@anchorhold/daemon/push/push-service'
import { gateProcess } from '@anchorhold/daemon/processes/gate-process'
import type { KeeperHost, Remains } from '@anchorhold/daemon/processes/keeper-host'
import { keeperProcesses } from '@anchorhold/daemon/processes/keeper-processes'
import type { Launched } from '@anchorhold/daemon/processes/launch'
import { sources as makeSources } from '@anchorhold/daemon/processes/sources'
import type { SessionRow, Store } from '@anchorhold/daemon/store/store'
import { transaction } from '@anchorhold/daemon/transaction'
import { watches } from '@anchorhold/daemon/watches'
import type { KeptLease } from '@anchorhold/gate/money/leases'
import { fakeCells } from '@anchorhold/keeper/cells/fake-cell'
import { fakeStart } from '@anchorhold/keeper/fake-start'
import { noVeil } from '@anchorhold/keeper/repo-filter/veil'
import { tend } from '@anchorhold/keeper/tend'
import { readDeadOutbox } from '@anchorhold/link/outbox'
import type { Span } from '@anchorhold/core/ledger'
import type { NodeName } from '@anchorhold/protocol/events'
import type { Nanos } from '@anchorhold/protocol/money'
import { firstOwner, newSessionId, type PromptId, type RandomBytes, type SessionId } from '@anchorhold/protocol/ids'
import type { Authority } from '@anchorhold/protocol/authority'
import type { KeeperStart } from '@anchorhold/protocol/keeper-start'
import { type Done, simulatedAgents } from './agent.ts'
import { gateSocket, simulatedGate, type SimulatedGate } from './gate.ts'
import type { Machine, Process } from './machine.ts'

export const owner: Actor = { kind: 'owner', user: firstOwner, name: 'owner', door: 'simulation' }

/** The product on a simulated machine: the real keeper, link, books, store and verbs of the daemon; agents, cells and windows
 *  are simulated. */
export interface House {
  readonly session: SessionId
  /** The group that it spends out of. */
  readonly group: NodeName
  /** The daemon's parts while one answers. */
  readonly parts: Parts | null
  readonly gate: SimulatedGate | null
  /** How often an agent has written each prompt down. */
  readonly received: ReadonlyMap<PromptId, number>
  /** Calls whose reservation was on the disk. */
  readonly safeCalls: ReadonlySet<string>
  /** What agents did, each once they were let. */
  readonly performed: readonly Done[]
  readonly logged: readonly string[]
  startDaemon(): void
  daemon(): Process | null
  keepers(): readonly Process[]
  failDisk(which: 'gate' | 'keeper'): void
  /** For so long nobody can read what a keeper left, or not all of it. */
  failRemains(ms: number): void
}

const state = '/simulated'
const keeperLock = (session: SessionId) => `${session}/lock`
const outboxOf = (session: SessionId) => `${session}/outbox`
const sayingOf = (session: SessionId) => `${session}/saying`

export type HouseOptions = {
  readonly machine: Machine
  readonly store: Store
  readonly budgetNanos: number
  /** What the session's group may spend. */
  readonly groupCaps: Partial<Record<Span, Nanos>>
  /** The first number of the gate's records. The store may have seen other houses: it is above all of theirs. */
  readonly gateFrom: number
}

export function house({ machine, store, budgetNanos, groupCaps, gateFrom }: HouseOptions): House {
  const { random } = machine
  const randomBytes: RandomBytes = (count) => Uint8Array.from({ length: count }, () => Math.floor(random() * 256))
  const session = newSessionId(randomBytes)
  // The store has seen other houses: their groups spent out of other budgets.
  const group = session.slice(4)
  const config = { ...readConfig(['--state', state], {}), root: false }
  const folders = foldersOf(state)
  const kept = new Map<SessionId, KeptLease>()
  const keptNodes = { nodes: [] }
  const received = new Map<PromptId, number>()
  const safeCalls = new Set<string>()
  const performed: Done[] = []
  const logged: string[] = []
  let daemon: Process | null = null
  let parts: Parts | null = null
  let gate: SimulatedGate | null = null
  let unreadableUntil = 0
  const keepers = new Set<Process>()

  const processOf = (name: string) => machine.process(name)

  /** What a process that was started tells the one that started it. */
  function launched(by: Process, child: Process, stands: Promise<boolean>): Promise<Launched> {
    return new Promise((resolve) => {
      const tell = (how: Launched) => void by.sometime().then(() => resolve(how))
      child.onDeath(() => tell({ ready: false, code: null }))
      void stands.then(
        (ready) => {
          if (ready) return tell({ ready: true, pid: child.pid })
          tell({ ready: false, code: 75 })
          machine.kill(child)
        },
        // Its disk failed before it stood.
        () => machine.kill(child),
      )
    })
  }

  function launchGate(by: Process): Promise<Launched> {
    const process = processOf('gate')
    const die = () => machine.kill(process)
    const starting = simulatedGate({
      ...{ process, random, kept, keptNodes, die },
      safe: (call) => void safeCalls.add(call),
    })
    return launched(
      by,
      process,
      starting.then((one) => {
        if (one !== null) gate = one
        return one !== null
      }),
    )
  }

  async function keeperMain(process: Process, by: Process, start: KeeperStart): Promise<boolean> {
    await process.sometime(100)
    if (!process.lock(keeperLock(session)) || !by.alive) return false
    keepers.add(process)
    process.files.delete(sayingOf(session))
    process.onDeath(() => keepers.delete(process))
    const call = (from: Process) => (gate === null ? from.sometime().then(() => 'cut' as const) : gate.call(from, session))
    const one = await tend({
      start,
      cells: fakeCells({ standing: () => process.sometime(100) }),
      agents: simulatedAgents({
        process,
        random,
        call,
        act: (from, host) => (gate === null ? from.sometime().then(() => 'cut' as const) : gate.act(from, session, host)),
        did: (done) => void performed.push(done),
        memory: received,
      }),
      toolchains: [],
      veil: noVeil,
      disk: process.disk(outboxOf(session)),
      saying: {
        add: (line) => void process.files.set(sayingOf(session), (process.files.get(sayingOf(session)) ?? '') + line),
        replace: (lines) => void process.files.set(sayingOf(session), lines),
        empty: () => void process.files.delete(sayingOf(session)),
      },
      wire: process.wire,
      pid: process.pid,
      settle: () => (gate === null ? Promise.resolve(null) : gate.settle(process, session)),
      pinFiles: async () => [],
      agentBeatMs: null,
      furnish: { agent: async () => {}, programs: async () => {} },
      checkedOut: async () => null,
      clock: process.clock,
      random: randomBytes,
      die: () => machine.kill(process),
    })
    void one.over.then(() => machine.kill(process))
    return true
  }

  const hostOf = (by: Process): KeeperHost => ({
    launch(start, _, signal) {
      const process = processOf('keeper')
      const kill = () => machine.kill(process)
      signal.addEventListener('abort', kill)
      if (signal.aborted) kill()
      return launched(by, process, keeperMain(process, by, start)).finally(() => signal.removeEventListener('abort', kill))
    },
    isHeld: () => by.isHeld(keeperLock(session)),
    kill() {
      const [holder] = keepers
      if (holder !== undefined) machine.kill(holder)
      return holder !== undefined
    },
    async remains(_, after) {
      await by.sometime()
      const isUnreadable = machine.elapsed < unreadableUntil
      if (isUnreadable && random() < 0.5) throw new Error('EIO: the disk failed')
      const { records, last } = await readDeadOutbox(by.look(outboxOf(session)), after)
      const saying = saidIn(by.files.get(sayingOf(session)) ?? '')
      return { records: isUnreadable ? cutShort(records) : records, last, saying }
    },
    claimUser: () => null,
    claimReadyCell: () => null,
    readyCells: [],
    adjust() {},
    makeReady() {},
    async discard() {},
  })

  async function* cutShort(records: Remains['records']): Remains['records'] {
    for await (const some of records) {
      yield some.slice(0, Math.floor(random() * some.length))
      break
    }
    throw new Error('EIO: the disk failed')
  }

  async function daemonMain(process: Process): Promise<void> {
    const { clock, wire } = process
    const log = (message: string) => void logged.push(`${Math.round(machine.elapsed)} ${message}`)
    const hub = makeHub(store.events.beforePos(Number.MAX_SAFE_INTEGER, 1, null).at(-1)?.pos)
    const sources = makeSources({ store, hub, clock, wire, log })
    const mine: Parts = {
      config,
      folders,
      store,
      hub,
      watches: watches(),
      policies: fakePolicies(),
      presence: presence(clock.now),
      push: pushService({ keyFile: folders.pushKey, subject: 'mailto:test@example.invalid', ownHosts: new Set(), log }),
      passwords: passwords(),
      attempts: attempts({ now: clock.now, random: () => new Uint8Array(32) }),
      sources,
      gate: gateProcess({
        folders: { gateSocket, gateLog: '' },
        // Nothing hangs on this machine, and what asks for ever never comes to rest.
        host: { launch: () => launchGate(process), holder: () => null, kill: () => {} },
        beatMs: null,
        sources,
        clock,
        env: () => ({}),
        log,
      }),
      newUser: () => null,
      keepers: keeperProcesses({
        folders: { keeperSocket: () => `${session}/keeper.sock`, keepersLog: '', outbox: outboxOf },
        host: hostOf(process),
        sources,
        clock,
        beatMs: null,
        log,
      }),
      doctor: () => Promise.reject(new Error('nobody asks')),
      now: clock.now,
      random: randomBytes,
      log,
    }
    const inbox = makeInbox(mine, clock)
    const reconcile = reconciler(mine, inbox, clock)
    hub.listen(inbox.heard)
    mine.gate.onUp((served) => void reconcile.gateUp(served))
    mine.keepers.listen({
      async describe(id) {
        await openWindows(mine, id)
        return { start: startOf(store.sessions.get(id)!, authorityFor(mine, id, 'keeper')), runAs: null }
      },
      gone: reconcile.keeperGone,
      unread: reconcile.keeperUnread,
      notStarted: reconcile.keeperNotStarted,
      saying: (id, frames) => hearOut(mine, id, frames),
    })
    await reconcile.findKeepers()
    parts = mine
    process.onDeath(() => {
      if (parts === mine) parts = null
    })
    await mine.gate.ensure().catch((error: unknown) => log(String(error)))
    deliverAll(mine)
    inbox.look()
  }

  const startOf = ({ conversing, standing }: SessionRow, authority: Authority): KeeperStart =>
    fakeStart({
      place: { session, folder: session },
      agent: {
        resume: conversing,
        unfinished: store.prompts.unfinished(session).map(({ id, text, images }) => ({ id, text, images: [...images] })),
        take_up: takesUp(standing),
      },
      policy: { authority, idle_ms: 3000, unused_ms: 1000 },
    })

  machine.put('gate/outbox', `${String(gateFrom).padStart(16, '0')}.log`)
  transaction({ store, hub: makeHub(), now: () => 0 }, (tx) => {
    tx.store.sessions.insert({ id: session, options: { group }, runAs: null, conversation: 'c', conversing: false, grants: [] })
    tx.record(session, {
      type: 'session.created',
      body: {
        name: 'New session',
        rung: 'none',
        provider: 'rehearsal',
        model: 'rehearsal-1',
        simulated: true,
        workspace: '/w',
        budget_nanos: budgetNanos,
        forked_from: null,
        on_crash: random() < 0.5 ? 'resume' : 'wait',
        autonomy: random() < 0.7 ? 'supervised' : 'full',
        actor: 'owner',
      },
    })
  })

  for (const [span, nanos] of Object.entries(groupCaps)) store.ledger.setCap(`group/${group}`, span as Span, nanos)

  return {
    session,
    group: `group/${group}`,
    get parts() {
      return parts
    },
    get gate() {
      return gate?.process.alive ? gate : null
    },
    received,
    safeCalls,
    performed,
    logged,
    startDaemon() {
      if (daemon?.alive) return
      const process = processOf('daemon')
      daemon = process
      void daemonMain(process)
    },
    daemon: () => (daemon?.alive ? daemon : null),
    keepers: () => [...keepers],
    failDisk(which) {
      const [keeper] = keepers
      const process = which === 'gate' ? gate?.process : keeper
      if (process?.alive) process.disk(which === 'gate' ? 'gate/outbox' : outboxOf(session)).failSync(1, 'EIO')
    },
    failRemains(ms) {
      unreadableUntil = machine.elapsed + ms
    },
  }
}
