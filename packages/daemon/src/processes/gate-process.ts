import type { Attachment } from '@anchorhold/link/attach'
import { type Clock, pause } from '@anchorhold/link/clock'
import { keepsCompiled } from '@anchorhold/core/compiled'
import { lockHolder } from '@anchorhold/link/lock'
import { Failure } from '@anchorhold/protocol/failures'
import { watchPulse } from '@anchorhold/link/pulse'
import type { SessionId } from '@anchorhold/protocol/ids'
import { type GateCommand, GateHealth } from '@anchorhold/protocol/gate-commands'
import { keyringNote } from '@anchorhold/core/places'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../config.ts'
import type { Folders } from '../folders.ts'
import { gateUser } from '../folders.ts'
import { endProcess, launch, type Launched } from './launch.ts'
import type { Runtime } from './runtime.ts'
import type { Sources } from './sources.ts'

/** The one gate: found or started, and started again when it died. */
export interface GateProcess {
  readonly up: boolean
  do(command: GateCommand): Promise<unknown>
  /** Finds or starts the gate. */
  ensure(): Promise<void>
  /** Starts it anew with this variable of the daemon's environment, which a provider is about to name, unless it has that. */
  restartWith(variable: string): Promise<void>
  /** Ends the gate, for good as far as this daemon is concerned. */
  leave(): Promise<void>
  /** Lets go of the link; the gate lives on. */
  detach(): void
  /** Called whenever the link to a gate stands, with the sessions that it serves by itself. */
  onUp(heard: (sessions: readonly SessionId[]) => void): void
}

/** What says more of the key that secrets are sealed under, of the owner's environment. */
export const keyEnv = (env: Readonly<Record<string, string | undefined>>): Record<string, string> =>
  env.ENCRYPTION_KEY === undefined ? {} : { ENCRYPTION_KEY: env.ENCRYPTION_KEY }

/** The same, with where keys are kept: the one that was there last is left when the config says another. */
export function keyStoreEnv(
  { keyStore, env }: Pick<Config, 'keyStore' | 'env'>,
  { gate }: Pick<Folders, 'gate'>,
): Record<string, string> {
  if (keyStore === 'file')
    return { ...keyEnv(env), ...(existsSync(join(gate, keyringNote)) ? { ANCHORHOLD_KEY_STORE: keyStore } : {}) }
  const reached = ['DBUS_SESSION_BUS_ADDRESS', 'XDG_RUNTIME_DIR', 'HOME'].flatMap((name) =>
    env[name] === undefined ? [] : [[name, env[name]]],
  )
  return { ...keyEnv(env), ANCHORHOLD_KEY_STORE: keyStore, ...(Object.fromEntries(reached) as Record<string, string>) }
}

/** The gate as the machine has it: a process and its lock. */
export interface GateHost {
  /** Starts a gate with these variables; one that finds another at work ends with code 75. */
  launch(env: Readonly<Record<string, string>>): Promise<Launched>
  /** The process that holds the gate's lock; null where there is none, or where that cannot be told. */
  holder(): number | null
  kill(pid: number): void
}

/** Starts the gate's program, as its own user where the daemon is root. */
export const gateHost = (folders: Folders, runtime: Runtime, root: boolean): GateHost => ({
  launch: (env) =>
    launch({
      node: runtime.node,
      script: runtime.gate,
      args: [folders.gate],
      env: { ...env, ...keepsCompiled(folders.gate) },
      runAs: root ? gateUser : null,
      cwd: '/',
      log: folders.gateLog,
      input: '',
      signal: new AbortController().signal,
    }),
  holder: () => lockHolder(folders.gateLock),
  kill: endProcess,
})

export type GateProcessOptions = {
  readonly folders: Pick<Folders, 'gateSocket' | 'gateLog'>
  readonly host: GateHost
  readonly sources: Sources
  readonly clock: Clock
  /** The variables that providers name and these, and no others. */
  readonly env: (more: ReadonlySet<string>) => Readonly<Record<string, string>>
  /** How often it is asked whether it still answers; null for never. */
  readonly beatMs: number | null
  readonly log: (message: string) => void
}

/** How long a gate that leaves may hold its lock. */
const startMs = 10_000
const retryMsMax = 2000
const triesMax = 3
/** A gate that owes so many answers in a row hangs: every cell waits at its windows, and another gate can serve them. */
const missedMax = 3

export function gateProcess({ folders, host, sources, clock, env, beatMs, log }: GateProcessOptions): GateProcess {
  let attachment: Attachment | null = null
  let ensuring: Promise<Attachment> | null = null
  let detached = false
  let keeping = false
  let onUp: (sessions: readonly SessionId[]) => void = () => {}
  let closed = Promise.withResolvers<void>()
  const asked = new Set<string>()
  /** The names of the variables that the gate at hand has; null where it does not say. */
  let named: readonly string[] | null = null

  const attach = () =>
    sources.attach('gate', folders.gateSocket, () => {
      attachment = null
      closed.resolve()
      closed = Promise.withResolvers()
      // A gate that dies is needed again at once: cells are waiting at its windows.
      void keepUp()
    })

  async function findOrStart(): Promise<Attachment> {
    let endings = 0
    let end = clock.elapsed() + startMs
    for (let hasEnded = false; ; await pause(clock, 50)) {
      if (clock.elapsed() >= end) {
        // One that still holds its lock by now hangs.
        const hung = hasEnded ? null : host.holder()
        if (hung === null) throw new Failure('gate_unavailable', 'Cannot start the gate: another one neither answers nor leaves')
        endHung(hung)
        hasEnded = true
        end = clock.elapsed() + startMs
      }
      const found = await find()
      if (found !== null) {
        const { has } = found
        if (has === null || Object.keys(env(asked)).every((name) => has.includes(name))) return welcome(found)
        // A keeper started it, and keepers have no secrets to give.
        await found.gate.do({ do: 'leave' }).catch(() => {})
        continue
      }
      const launched = await host.launch(env(asked))
      const fresh = launched.ready ? await find() : null
      if (fresh !== null) return welcome(fresh)
      // Another process was quicker, or the gate before this one is still leaving: its lock says so.
      if (!launched.ready && launched.code === 75) continue
      // Somebody ended it before it was found; it is tried again, within limits.
      if ((launched.ready || launched.code === null) && ++endings < triesMax) continue
      if (!launched.ready && launched.why !== undefined)
        throw new Failure('gate_unavailable', launched.why.message, { hint: launched.why.hint ?? `See ${folders.gateLog}` })
      const how = launched.ready ? 'as soon as it stood' : `with code ${launched.code}`
      throw new Failure('gate_unavailable', `Cannot start the gate: it ended ${how}`, { hint: `See ${folders.gateLog}` })
    }
  }

  /** What it had written is in its outbox, and what it had set aside is settled by the next one. */
  function endHung(pid: number): void {
    log(`The gate (process ${pid}) answers nothing: ending it, and starting another`)
    host.kill(pid)
  }

  type Found = { readonly gate: Attachment; readonly sessions: readonly SessionId[]; readonly has: readonly string[] | null }
  /** The gate that answers now, with the names of its variables; one of the release before this says nothing of those. */
  async function find(): Promise<Found | null> {
    try {
      const gate = await attach()
      const health = GateHealth.safeParse(await gate.do({ do: 'ping' }))
      return health.success ? { gate, sessions: health.data.sessions, has: health.data.env } : { gate, sessions: [], has: null }
    } catch {
      return null
    }
  }
  function welcome({ gate, sessions, has }: Found): Attachment {
    named = has
    if (beatMs !== null) watchPulse(gate, { clock, beatMs, missedMax, onHung: () => endHung(host.holder() ?? gate.pid) })
    onUp(sessions)
    return gate
  }

  /** Tries until a gate stands, whatever it takes: one may also die while it is being found. */
  async function keepUp(): Promise<void> {
    if (keeping) return
    keeping = true
    for (let pauseMs = 50; !detached; pauseMs = Math.min(2 * pauseMs, retryMsMax)) {
      const stands = await ensure().then(
        (gate) => gate.open,
        () => false,
      )
      if (stands) break
      await pause(clock, pauseMs)
    }
    keeping = false
    // It may have died between the last look and this line.
    if (!detached && !attachment?.open) void keepUp()
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
    async do(command) {
      for (let tries = 1; ; tries++) {
        try {
          return await (await ensure()).do(command)
        } catch (error) {
          if (!(error instanceof Failure) || error.code !== 'keeper_unavailable') throw error
          // It died over the command. The next one is told again: whatever it is, to be told twice does no harm.
          if (tries === triesMax || detached || attachment?.open)
            throw new Failure('gate_unavailable', error.message, { cause: error })
        }
      }
    },
    async ensure() {
      await ensure().catch((error: unknown) => {
        void keepUp()
        throw error
      })
    },
    async restartWith(variable) {
      asked.add(variable)
      // One that is just being started may have been given its variables already.
      const gate = await ensure()
      if (named?.includes(variable)) return
      const gone = closed.promise
      await gate.do({ do: 'leave' }).catch(() => {})
      // It is still there until it lets go of the link.
      await Promise.race([gone, pause(clock, startMs)])
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
    onUp: (heard) => void (onUp = heard),
  }
}
