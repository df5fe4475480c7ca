import { keyringNote, rehearsalFolder } from '@anchorhold/core/places'
import { systemClock } from '@anchorhold/link/clock'
import { attachTo } from '@anchorhold/link/attach'
import { gateUser, makeFolder } from '@anchorhold/daemon/folders'
import { launch } from '@anchorhold/daemon/processes/launch'
import { rehearsalHost, rehearsalProcess } from '@anchorhold/daemon/processes/rehearsal-process'
import type { Runtime } from '@anchorhold/daemon/processes/runtime'
import { type EventBody, eventBodies, type RequestAction } from '@anchorhold/protocol/events'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import { type NetTerms, OpenWindows } from '@anchorhold/protocol/gate-commands'
import { type Provider } from '@anchorhold/protocol/providers'
import type { Policy } from '@anchorhold/protocol/policy'
import { copyFileSync, chownSync, existsSync } from 'node:fs'
import { join } from 'node:path'

export type PrivateGateOptions = {
  readonly folder: string
  /** Where what the demo model has to say of itself goes. */
  readonly rehearsalLog: string
  readonly runtime: Runtime
  readonly root: boolean
  readonly session: SessionId
  readonly windows: string
  readonly provider: Provider
  /** The folder with the keys that open sealed credentials, and the variables that say more of them. */
  readonly keys: string
  readonly keyEnv: Readonly<Record<string, string>>
  readonly budgetNanos: number | null
  /** What the provider's credential is looked up in. */
  readonly env: Readonly<Record<string, string>>
  readonly policy: Policy
  /** Null for no net window. How slow the cell is shows when it stands. */
  readonly net: Omit<NetTerms, 'slowness'> | null
  /** Hears what would have been asked of a person. */
  readonly onBlocked: (action: RequestAction) => void
}

const nobody = 'No rule allows it, and without a daemon there is nobody to ask'

/** While keys are being changed there are two; one that is in a keyring is found there by its note. */
function copyKeys(from: string, to: string, owner: typeof gateUser | null): void {
  for (const name of ['key', 'key.next', keyringNote]) {
    if (!existsSync(join(from, name))) continue
    copyFileSync(join(from, name), join(to, name))
    if (owner !== null) chownSync(join(to, name), owner.uid, owner.gid)
  }
}

export interface PrivateGate extends AsyncDisposable, OpenWindows {
  /** The cell stands, and takes that much longer for everything. */
  waitLonger(slowness: number): Promise<void>
}

/** A gate for one cell and for as long as that lives: its windows work without a daemon. */
export async function privateGate(options: PrivateGateOptions): Promise<PrivateGate> {
  const { folder, runtime, root } = options
  const owner = root ? gateUser : null
  makeFolder(folder, 0o700, owner)
  const needsKey =
    options.provider.credential.from === 'sealed' || options.net?.credentials.some(({ box }) => box !== null) === true
  if (needsKey) copyKeys(options.keys, folder, owner)
  const log = join(folder, 'gate.log')
  // It stands by the time that the cell does, and is held by this process: the two end together, and it is started again when it dies.
  const place = { folder: rehearsalFolder(folder), log: options.rehearsalLog, root, lasting: false }
  const rehearsal = rehearsalProcess(rehearsalHost(place, runtime), systemClock, () => {})
  if (options.provider.kind === 'rehearsal') void rehearsal.hold().catch(() => {})
  const launched = await launch({
    node: runtime.node,
    script: runtime.gate,
    args: [folder, '--lifeline'],
    env: { ...options.env, ...(needsKey ? options.keyEnv : {}) },
    runAs: owner,
    cwd: '/',
    log,
    input: '',
    signal: new AbortController().signal,
    lifeline: true,
  })
  if (!launched.ready) rehearsal.letGo()
  if (!launched.ready) throw new Failure('gate_unavailable', 'Cannot start a gate for the cell', { hint: `See ${log}` })
  const gate = await attachTo({
    socketPath: join(folder, 'link.sock'),
    source: 'gate',
    after: 0,
    // Nobody keeps a log of what is not a session.
    onRecord({ n, type, body }) {
      if (type === 'request.opened') refuse(eventBodies['request.opened'].parse(body))
      gate.ack(n)
    },
    onLive: () => {},
    onClose: () => {},
  })
  const open = (slowness: number) =>
    gate.do({
      do: 'open',
      session: options.session,
      folder: options.windows,
      provider: options.provider,
      budget_nanos: options.budgetNanos,
      spent_nanos: 0,
      spent_to: 0,
      rules: { allow: [] },
      authority: { policy: options.policy, grants: [], asked: [] },
      ...(options.net === null ? {} : { network: 'proxy_only', net: { ...options.net, slowness } }),
    })
  const opened = await open(1)
  /** Nobody is there to be asked: what is not allowed by a rule is refused at once. */
  function refuse({ id, action }: EventBody<'request.opened'>): void {
    options.onBlocked(action)
    const answer = { decision: 'deny', reason: nobody } as const
    void gate.do({ do: 'answer', session: options.session, request: id, answer, actor: 'launcher', grant: null }).catch(() => {})
  }
  return {
    authority: OpenWindows.parse(opened).authority,
    async waitLonger(slowness) {
      if (slowness > 1) await open(slowness)
    },
    async [Symbol.asyncDispose]() {
      await gate.do({ do: 'leave' }).catch(() => {})
      gate.close()
      rehearsal.letGo()
    },
  }
}
