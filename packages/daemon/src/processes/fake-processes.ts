import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { GateCommand } from '@anchorhold/protocol/gate-commands'
import type { KeeperCommand } from '@anchorhold/protocol/keeper-commands'
import type { WorkspaceAnswer, WorkspaceAsk } from '@anchorhold/protocol/workspace'
import type { GateProcess } from './gate-process.ts'
import type { KeeperProcesses } from './keeper-processes.ts'

/** Keepers for tests: no process, and the test says what each command does. */
export interface FakeKeepers extends KeeperProcesses {
  readonly commands: { readonly session: SessionId; readonly command: KeeperCommand }[]
  readonly killed: SessionId[]
  readonly starts: number
  /** What a keeper answers; throws what it would throw. */
  handle: (session: SessionId, command: KeeperCommand) => Promise<unknown>
  /** Resolves when a keeper that is being started stands; rejects when it cannot. */
  standing: (session: SessionId) => Promise<void>
  /** The keeper has gone by itself. */
  vanish(session: SessionId): void
}

export function fakeKeepers(): FakeKeepers {
  const live = new Map<SessionId, PromiseWithResolvers<void>>()
  const starting = new Map<SessionId, Promise<void>>()
  const commands: FakeKeepers['commands'] = []
  const killed: SessionId[] = []
  let starts = 0
  const vanish = (session: SessionId) => {
    live.get(session)?.resolve()
    live.delete(session)
  }
  const fake: FakeKeepers = {
    commands,
    killed,
    get starts() {
      return starts
    },
    handle: async (_, command) => answerTo(command),
    standing: async () => {},
    vanish,
    get count() {
      return live.size
    },
    get sessions() {
      return [...new Set([...live.keys(), ...starting.keys()])]
    },
    has: (session) => live.has(session),
    async stands(session) {
      await starting.get(session)?.catch(() => {})
      return live.has(session)
    },
    async do(session, command) {
      if (!live.has(session)) throw new Failure('keeper_unavailable', `Session "${session}" has no keeper`)
      commands.push({ session, command })
      return fake.handle(session, command)
    },
    ensure(session) {
      if (live.has(session)) return Promise.resolve()
      const known = starting.get(session)
      if (known !== undefined) return known
      starts++
      const start = fake
        .standing(session)
        .then(() => void live.set(session, Promise.withResolvers<void>()))
        .finally(() => starting.delete(session))
      starting.set(session, start)
      return start
    },
    async reattach(_, lost) {
      lost?.()
      return false
    },
    async end(session, why, { still = () => true } = {}) {
      await starting.get(session)?.catch(() => {})
      if (!live.has(session) || !still()) return
      commands.push({ session, command: { do: 'leave', why } })
      vanish(session)
    },
    gone: (session) => live.get(session)?.promise ?? Promise.resolve(),
    kill(session) {
      killed.push(session)
      vanish(session)
    },
    claimUser: () => null,
    claimReadyCell: () => null,
    readyCells: [],
    listen() {},
    makeReady() {},
    startNoMore() {},
    startsNoMore: false,
    async detach() {},
  }
  return fake
}

function answerTo(command: KeeperCommand): unknown {
  if (command.do === 'answer') return { told: false }
  if (command.do === 'workspace') return looked[command.asked.ask]
  return command.do === 'commands' ? [] : null
}

/** What an empty workspace looks like. */
const looked = {
  list: { entries: [], more: false },
  read: { size: 0, text: '', truncated: false },
  bytes: { base64: '' },
  put: { path: 'uploads/a' },
  names: { names: [], more: false },
  checked_out: { branch: null, commit: null },
  changes: { git: false, why: 'no_repository', message: '' },
} as const satisfies { [A in WorkspaceAsk['ask']]: WorkspaceAnswer<A> }

export interface FakeGate extends GateProcess {
  readonly commands: GateCommand[]
  up: boolean
  handle: (command: GateCommand) => unknown
}

export function fakeGate(): FakeGate {
  const commands: GateCommand[] = []
  const fake: FakeGate = {
    commands,
    up: true,
    handle(command) {
      if (command.do === 'answer') return { told: false }
      if (command.do === 'open_inside') return { plaintexts: command.boxes.map((box) => `opened ${box}`) }
      if (command.do === 'seal') return { box: `sealed ${command.plaintext.length}` }
      if (command.do === 'reseal') return { boxes: command.boxes.map((box) => `${box} anew`) }
      return null
    },
    async do(command) {
      commands.push(command)
      return fake.handle(command)
    },
    ensure: async () => {},
    restartWith: async () => {},
    leave: async () => {},
    detach() {},
    onUp() {},
  }
  return fake
}
