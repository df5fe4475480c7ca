import type { Attachment } from '@anchorhold/link/attach'
import { Failure } from '@anchorhold/protocol/failures'
import type { GateCommand } from '@anchorhold/protocol/link'
import type { Folders } from '../folders.ts'
import { gateUser } from '../folders.ts'
import { launch } from './launch.ts'
import type { Runtime } from './runtime.ts'
import type { Sources } from './sources.ts'

/** The one gate: found or started, and started again when it died. */
export interface GateProcess {
  readonly up: boolean
  do(command: GateCommand): Promise<unknown>
  /** Finds or starts the gate. */
  ensure(): Promise<void>
  /** Starts it anew with this variable of the daemon's environment, which a provider is about to name. */
  restartWith(variable: string): Promise<void>
  /** Ends the gate, for good as far as this daemon is concerned. */
  leave(): Promise<void>
  /** Lets go of the link; the gate lives on. */
  detach(): void
}

export type GateProcessOptions = {
  readonly folders: Folders
  readonly runtime: Runtime
  readonly sources: Sources
  readonly root: boolean
  /** The variables that providers name and these, and no others. */
  readonly env: (more: ReadonlySet<string>) => Readonly<Record<string, string>>
  /** Called when a gate stands that knows nothing of the open sessions. */
  readonly onStarted: () => void
}

export function gateProcess({ folders, runtime, sources, root, env, onStarted }: GateProcessOptions): GateProcess {
  let attachment: Attachment | null = null
  let ensuring: Promise<Attachment> | null = null
  let detached = false
  const asked = new Set<string>()

  const attach = () =>
    sources.attach('gate', folders.gateSocket, () => {
      attachment = null
      // A gate that dies is needed again at once: cells are waiting at its windows.
      if (!detached) void ensure().catch(() => {})
    })

  async function findOrStart(): Promise<Attachment> {
    try {
      return await attach()
    } catch {
      // Nobody listens there: start one. Should another process have been quicker, its lock makes this one leave.
    }
    const launched = await launch({
      node: runtime.node,
      script: runtime.gate,
      args: [folders.gate],
      env: env(asked),
      runAs: root ? gateUser : null,
      cwd: '/',
      log: `${folders.state}/gate.log`,
      input: '',
    })
    if (!launched.ready && launched.code !== 75) {
      throw new Failure('gate_unavailable', `Cannot start the gate: it ended with code ${launched.code}`, {
        hint: `See ${folders.state}/gate.log`,
      })
    }
    const fresh = await attach()
    onStarted()
    return fresh
  }

  async function ensure(): Promise<Attachment> {
    if (attachment?.open) return attachment
    ensuring ??= findOrStart().finally(() => {
      ensuring = null
    })
    attachment = await ensuring
    return attachment
  }

  return {
    get up() {
      return attachment?.open ?? false
    },
    do: async (command) => (await ensure()).do(command),
    async ensure() {
      await ensure()
    },
    async restartWith(variable) {
      if (asked.has(variable)) return
      asked.add(variable)
      await attachment?.do({ do: 'leave' }).catch(() => {})
      attachment?.close()
      attachment = null
      await ensure()
    },
    async leave() {
      detached = true
      await attachment?.do({ do: 'leave' }).catch(() => {})
    },
    detach() {
      detached = true
      attachment?.close()
    },
  }
}
