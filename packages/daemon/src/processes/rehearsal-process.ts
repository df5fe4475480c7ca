import { keepsCompiled } from '@anchorhold/core/compiled'
import { rehearsalSocket } from '@anchorhold/core/places'
import { type Clock, pause } from '@anchorhold/link/clock'
import type { GateCommand } from '@anchorhold/protocol/gate-commands'
import type { SessionId } from '@anchorhold/protocol/ids'
import { watchPath } from '@anchorhold/protocol/link'
import { request } from 'node:http'
import { makeRehearsalFolder, rehearsalUser } from '../folders.ts'
import type { GateProcess } from './gate-process.ts'
import { launch, type Launched } from './launch.ts'
import type { Runtime } from './runtime.ts'

/** The demo model's process: there for as long as somebody needs it, and started again when it dies. */
export interface RehearsalProcess {
  /** Finds or starts it, and holds it from here on. Rejects when it cannot be started now; it is tried again until it stands. */
  hold(): Promise<void>
  /** Nobody needs it here any more. It ends by itself when no gate is connected to it either. */
  letGo(): void
}

export type RehearsalHost = {
  launch(): Promise<Launched>
  /** Connects to the one that stands, and hears when it is gone; null where none does. */
  connect(onGone: () => void): Promise<{ close(): void } | null>
}

type RehearsalFolders = {
  readonly folder: string
  readonly log: string
  readonly root: boolean
  /** Whether the folder is there the next time as well. */
  readonly lasting: boolean
}

/** Starts the program as a user of its own where this process is root. */
export function rehearsalHost(
  { folder, log, root, lasting }: RehearsalFolders,
  runtime: Pick<Runtime, 'node' | 'rehearsal'>,
): RehearsalHost {
  return {
    launch() {
      makeRehearsalFolder(folder, root)
      return launch({
        node: runtime.node,
        script: runtime.rehearsal,
        args: [folder],
        env: lasting ? keepsCompiled(folder) : {},
        runAs: root ? rehearsalUser : null,
        cwd: '/',
        log,
        input: '',
        signal: new AbortController().signal,
      })
    },
    connect(onGone) {
      const { promise, resolve } = Promise.withResolvers<{ close(): void } | null>()
      const held = request({ socketPath: rehearsalSocket(folder), path: watchPath, agent: false }, (response) => {
        response.on('error', () => {})
        response.resume()
        response.once('close', onGone)
        resolve({ close: () => void held.destroy() })
      })
      held.on('error', () => resolve(null))
      // One that says nothing for so long hangs. The next one takes its place at the socket.
      const late = setTimeout(() => held.destroy(), silentMs)
      late.unref()
      void promise.then(() => clearTimeout(late))
      // Whoever holds it is not kept from its own end by that.
      held.once('socket', (socket) => socket.unref())
      held.end()
      return promise
    },
  }
}

const retryMsMax = 2000
const silentMs = 10_000

export function rehearsalProcess(host: RehearsalHost, clock: Clock, log: (message: string) => void): RehearsalProcess {
  let wanted = false
  let held: { close(): void } | null = null
  let finding: Promise<void> | null = null
  let keeping = false

  async function findOrStart(): Promise<void> {
    // Of several that were held one after the other, each speaks for itself.
    let isGone = false
    let found: { close(): void } | null = null
    const onGone = () => {
      isGone = true
      if (held !== found) return
      held = null
      void keepUp()
    }
    found = await host.connect(onGone)
    if (found === null) {
      const launched = await host.launch()
      if (launched.ready) found = await host.connect(onGone)
      if (found === null) throw new Error(`The demo model did not start${launched.ready ? '' : `: code ${launched.code}`}`)
    }
    if (isGone || !wanted) found.close()
    else held = found
  }

  /** Tries until it stands, or until nobody needs it. */
  async function keepUp(): Promise<void> {
    if (keeping) return
    keeping = true
    for (let pauseMs = 50; wanted && held === null; pauseMs = Math.min(2 * pauseMs, retryMsMax)) {
      await ensure().catch((error: unknown) => log(`Cannot start the demo model, trying again: ${String(error)}`))
      if (held === null) await pause(clock, pauseMs)
    }
    keeping = false
  }

  const ensure = () => (finding ??= findOrStart().finally(() => (finding = null)))

  return {
    async hold() {
      wanted = true
      if (held !== null) return
      await ensure().catch((error: unknown) => {
        void keepUp()
        throw error
      })
    },
    letGo() {
      wanted = false
      held?.close()
      held = null
    },
  }
}

/** A gate that finds the demo model running wherever it is told of a session that calls it. */
export function withRehearsal(gate: GateProcess, rehearsal: RehearsalProcess, log: (message: string) => void): GateProcess {
  /** Those whose windows lead to it. */
  const sessions = new Set<SessionId>()
  let tests = 0
  /** What keeps it from starting is for the log: who calls it is told at the model window that it is not running. */
  const hold = () => rehearsal.hold().catch((error: unknown) => log(error instanceof Error ? error.message : String(error)))
  const letGo = () => {
    if (sessions.size === 0 && tests === 0) rehearsal.letGo()
  }
  async function during(command: GateCommand): Promise<unknown> {
    const calls = (command.do === 'open' || command.do === 'test') && command.provider.kind === 'rehearsal'
    if (command.do === 'panic') sessions.clear()
    if (command.do === 'open' && calls) sessions.add(command.session)
    else if (command.do === 'open' || command.do === 'close') sessions.delete(command.session)
    if (!calls) return gate.do(command)
    if (command.do === 'open') {
      // Neither waits for the other to begin.
      const [, opened] = await Promise.all([hold(), gate.do(command)])
      return opened
    }
    tests += 1
    try {
      await hold()
      return await gate.do(command)
    } finally {
      tests -= 1
    }
  }
  return {
    get up() {
      return gate.up
    },
    do: (command) => during(command).finally(letGo),
    ensure: gate.ensure,
    restartWith: gate.restartWith,
    onUp: gate.onUp,
    leave: () => gate.leave().finally(() => rehearsal.letGo()),
    detach() {
      gate.detach()
      // It lives on with the gate that is connected to it.
      rehearsal.letGo()
    },
  }
}
