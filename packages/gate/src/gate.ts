import { mkdir } from 'node:fs/promises'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { z } from 'zod'
import { systemClock } from '@anchorhold/link/clock'
import type { Outbox } from '@anchorhold/link/outbox'
import type { GateHealth } from '@anchorhold/protocol/gate-commands'
import { keyPlaces } from './keys/key-places.ts'
import { sealingKeys } from './keys/sealing-keys.ts'
import { fileSigner } from './keys/signing.ts'
import { keyVerbs } from './keys/verbs.ts'
import { openBooks } from './money/books.ts'
import { leaseFiles } from './money/leases.ts'
import { rateLimits } from './money/rates.ts'
import { providerVerbs } from './providers/checks.ts'
import { connections } from './providers/connections.ts'
import type { ProviderParts } from './providers/providers.ts'
import { type Sessions, sessionsServed } from './sessions.ts'
import type { Command, Verbs } from './verbs.ts'
import type { CallLine } from './windows/call-line.ts'
import { dialectOf } from './windows/model/dialects.ts'
import type { DialParts } from './windows/net/dial.ts'
import { windowKinds } from './windows/windows.ts'

/** The process that serves every cell's windows, without the link that it is commanded over. */
export type Gate = {
  handle(command: Command): Promise<unknown>
  /** Resolves when no call is under way any more, or when it has taken too long. */
  quiet(withinMs: number): Promise<void>
  /** Ends every window. The next gate serves the same sessions. */
  close(): Promise<void>
}

export type GateParts = {
  /** The gate's own: its key and its leases. */
  readonly folder: string
  /** Where the rehearsal provider listens, a process of its own. */
  readonly rehearsalSocket: string
  readonly outbox: Outbox
  /** Whether it serves a single cell without a daemon: nobody is there to be asked, and no command reaches a budget. */
  readonly alone?: boolean
  /** Where `{ env }` credentials are looked up, and nothing else. */
  readonly env: Readonly<Record<string, string | undefined>>
  readonly now?: () => number
  readonly log?: (line: CallLine) => void
  /** Somebody waits for what has just reached the disk. */
  readonly tell?: () => void
  /** What an operator should know. */
  readonly say?: (message: string) => void
  /** The disk failed: calls are refused from here on, until another gate takes over. */
  readonly onBroken?: (error: Error) => void
  /** How long a call waits for somebody to pay for it. */
  readonly heldMs?: number
  /** How names are resolved and addresses dialled, where not as the machine does. */
  readonly dial?: DialParts
}

/** Agents wait longer than this for an answer; nobody should be asked for longer than they wait. */
const heldMsMax = 5 * 60 * 1000
/** What a call cost is safe from the gate's death as soon as it is written; on its way to the disk it may wait for others. */
const settledSyncMs = 20

export async function gate(parts: GateParts): Promise<Gate> {
  await mkdir(parts.folder, { recursive: true, mode: 0o700 })
  const {
    now = Date.now,
    log = () => {},
    tell = () => {},
    say = () => {},
    onBroken = () => {},
    heldMs = heldMsMax,
    alone = false,
  } = parts
  const secrets = await sealingKeys({ given: parts.env.ENCRYPTION_KEY, places: await keyPlaces(parts) })
  const signer = await fileSigner(join(parts.folder, 'signing-key'))
  const books = await openBooks({
    outbox: parts.outbox,
    leases: leaseFiles(join(parts.folder, 'leases'), say),
    now,
    newCall: callIds(),
    soon: () => wait(settledSyncMs),
    onBroken,
    say,
    onFreed: () => sessions.retryAll(),
  })
  const recovered = await books.recover()
  if (recovered > 0) say(`Booked ${recovered} model calls in full that the gate before this one did not live to settle`)
  const toProviders = connections()
  const { env, rehearsalSocket, folder, dial } = parts
  const providers: ProviderParts = { secrets, env, rehearsalSocket, connections: toProviders }
  const rates = rateLimits(systemClock)
  const kinds = await windowKinds({
    ...{ books, providers, rates, now, log, heldMs, alone, tell },
    ...{ folder, dial, openSecret: secrets.open },
  })
  const sessions: Sessions = sessionsServed({ books, kinds, env, now, tell, say })
  const verbs: Verbs = {
    ping: (): z.infer<typeof GateHealth> => ({ sessions: sessions.all(), env: Object.keys(env) }),
    ...sessions.verbs,
    ...keyVerbs({ secrets, signer, sealServedAnew: sessions.sealAnew }),
    ...providerVerbs(dialectOf('messages'), providers),
  }
  await sessions.reopenKept()

  return {
    // The table has a function of each command's own type, which TypeScript cannot see from the outside.
    handle: async (command) => (verbs[command.do] as (command: Command) => unknown)(command),
    async quiet(withinMs) {
      await Promise.race([sessions.quiet().catch(() => {}), wait(withinMs)])
    },
    async close() {
      await sessions.close()
      await books.flush().catch(() => {})
      await toProviders.close()
    },
  }
}

/** No two gates begin with the same word, and none gives a number twice. */
function callIds(): () => string {
  const gate = randomBytes(12).toString('base64url')
  let calls = 0
  return () => `${gate}.${(++calls).toString(36)}`
}
