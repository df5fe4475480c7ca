import { defaultPolicy } from '@anchorhold/core/policy/default-policy'
import { attachTo } from '@anchorhold/link/attach'
import { gateUser, makeFolder } from '@anchorhold/daemon/folders'
import { launch } from '@anchorhold/daemon/processes/launch'
import type { Runtime } from '@anchorhold/daemon/processes/runtime'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { Provider } from '@anchorhold/protocol/link'
import { copyFileSync, chownSync, existsSync } from 'node:fs'
import { join } from 'node:path'

export type PrivateGateOptions = {
  readonly folder: string
  readonly runtime: Runtime
  readonly root: boolean
  readonly session: SessionId
  readonly windows: string
  readonly provider: Provider
  /** The key that opens sealed credentials. */
  readonly key: string
  readonly budgetNanos: number | null
  /** What the provider's credential is looked up in. */
  readonly env: Readonly<Record<string, string>>
}

/** A gate for one cell and for as long as that lives: its windows work without a daemon. */
export async function privateGate(options: PrivateGateOptions): Promise<AsyncDisposable> {
  const { folder, runtime, root } = options
  const owner = root ? gateUser : null
  makeFolder(folder, 0o700, owner)
  if (options.provider.credential.from === 'sealed' && existsSync(options.key)) {
    copyFileSync(options.key, join(folder, 'key'))
    if (owner !== null) chownSync(join(folder, 'key'), owner.uid, owner.gid)
  }
  const log = join(folder, 'gate.log')
  const launched = await launch({
    node: runtime.node,
    script: runtime.gate,
    args: [folder, '--lifeline'],
    env: options.env,
    runAs: owner,
    cwd: '/',
    log,
    input: '',
    signal: new AbortController().signal,
    lifeline: true,
  })
  if (!launched.ready) throw new Failure('gate_unavailable', 'Cannot start a gate for the cell', { hint: `See ${log}` })
  const gate = await attachTo({
    socketPath: join(folder, 'link.sock'),
    after: 0,
    // Nobody keeps a log of what is not a session.
    onRecord: ({ n }) => gate.ack(n),
    onLive: () => {},
    onClose: () => {},
  })
  await gate.do({
    do: 'open',
    session: options.session,
    folder: options.windows,
    provider: options.provider,
    budget_nanos: options.budgetNanos,
    spent_nanos: 0,
    spent_to: 0,
    rules: { allow: [] },
    // Nobody is there to be asked.
    authority: { policy: defaultPolicy, grants: [], asked: [] },
  })
  return {
    async [Symbol.asyncDispose]() {
      await gate.do({ do: 'leave' }).catch(() => {})
      gate.close()
    },
  }
}
