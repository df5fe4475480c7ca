import type { SessionId } from '@anchorhold/protocol/ids'
import { systemClock } from '@anchorhold/link/clock'
import { randomBytes } from 'node:crypto'
import { rootFor } from './app/keepers/images.ts'
import { type Inbox, inbox as makeInbox } from './app/requests/inbox.ts'
import { keeperStart } from './app/keepers/keeper-start.ts'
import { hearOut } from './app/keepers/lost-keeper.ts'
import { notifier } from './app/push/notify.ts'
import type { Parts } from './app/parts.ts'
import { type Reconciler, reconciler } from './app/keepers/reconcile.ts'
import { heardOfSlowCells } from './app/keepers/slow-cells.ts'
import type { Config } from './config.ts'
import type { Folders } from './folders.ts'
import { hub as makeHub } from './hub.ts'
import { attempts } from './logins/attempts.ts'
import { passwords } from './logins/passwords.ts'
import { policies as openPolicies } from './policy/policies.ts'
import { presence } from './presence.ts'
import { doctorProcess } from './processes/doctor-process.ts'
import { gateHost, gateProcess, keyStoreEnv } from './processes/gate-process.ts'
import { keeperHost } from './processes/keeper-host.ts'
import { keeperProcesses } from './processes/keeper-processes.ts'
import { rehearsalHost, rehearsalProcess, withRehearsal } from './processes/rehearsal-process.ts'
import type { Runtime } from './processes/runtime.ts'
import { sessionUsers } from './processes/session-users.ts'
import { sources as makeSources } from './processes/sources.ts'
import { pushService } from './push/push-service.ts'
import type { Store } from './store/store.ts'
import { transaction } from './transaction.ts'
import { watches } from './watches.ts'
import { gitIdentity } from './workspace/git-identity.ts'

/** How often the gate is asked whether it still answers. */
const beatMs = 5000
/** A keeper that hangs holds up a person's work, and is told from one that is only slow by its fifth answer that does not come. */
const keeperBeatMs = 2000

export type HouseOptions = {
  readonly config: Config
  readonly folders: Folders
  readonly store: Store
  readonly runtime: Runtime
  /** Sessions whose folders were there before this daemon made any. */
  readonly onDisk: readonly SessionId[]
  readonly log: (message: string) => void
}

/** What the daemon's process looks after by itself. */
export type House = { readonly parts: Parts; readonly inbox: Inbox; readonly reconcile: Reconciler }

/** Makes every part of the daemon, and then has those listen that are to hear of the others. Nothing is started by it. */
export function house(options: HouseOptions): House {
  const parts = makeParts(options)
  const inbox = makeInbox(parts, systemClock)
  const reconcile = reconciler(parts, inbox)
  const notify = notifier(parts)
  const identity = gitIdentity(process.env)
  const { runtime } = options
  parts.hub.listen((events) => {
    inbox.heard(events)
    notify.heard(events)
    heardOfSlowCells(parts, events)
  })
  parts.gate.onUp((served) => void reconcile.gateUp(served))
  parts.keepers.listen({
    describe: (id) => keeperStart(parts, runtime, identity(), id),
    gone: reconcile.keeperGone,
    unread: reconcile.keeperUnread,
    notStarted: reconcile.keeperNotStarted,
    saying: (id, frames) => hearOut(parts, id, frames),
  })
  parts.policies.onChange((changed, author) => {
    // In force first: it may be that nothing can be written down.
    reconcile.policyChanged()
    transaction(parts, (tx) => {
      for (const { file, sha256 } of changed)
        tx.note({ type: 'policy.changed', body: { policy: file, sha256, ...(author ?? { actor: 'daemon', door: 'files' }) } })
    })
  })
  return { parts, inbox, reconcile }
}

/** Each part is given what it needs, and knows of nobody that needs it. */
function makeParts({ config, folders, store, runtime, onDisk, log }: HouseOptions): Parts {
  const hub = makeHub(store.events.lastPos())
  const sources = makeSources({ store, hub, log })
  const newUser = config.root ? sessionUsers({ folders, store, onDisk }) : () => null
  const namedEnv = (more: ReadonlySet<string>) => {
    const stored = store.providers.list().flatMap(({ credential }) => (credential.from === 'env' ? [credential.name] : []))
    const named = [...stored, ...more].flatMap((name) => (config.env[name] === undefined ? [] : [[name, config.env[name]]]))
    return { ...(Object.fromEntries(named) as Record<string, string>), ...keyStoreEnv(config, folders) }
  }
  const rehearsalFolders = { folder: folders.rehearsal, log: folders.rehearsalLog, root: config.root, lasting: true }
  const rehearsal = rehearsalProcess(rehearsalHost(rehearsalFolders, runtime), systemClock, log)
  const gate = withRehearsal(
    gateProcess({
      folders,
      host: gateHost(folders, runtime, config.root),
      sources,
      clock: systemClock,
      env: namedEnv,
      beatMs,
      log,
    }),
    rehearsal,
    log,
  )
  const keepers = keeperProcesses({
    folders,
    host: keeperHost({
      folders,
      runtime,
      spare: config.spareKeeper,
      newUser,
      pools: config.pools,
      rootOf: (rung) => rootFor({ config, folders }, rung, undefined),
      limits: config.limits,
      log,
      busy: (rung) => keepers.sessions.filter((id) => store.sessions.get(id)?.rung === rung).length,
      isOwned: (id) => store.sessions.get(id) !== null,
    }),
    sources,
    clock: systemClock,
    beatMs: keeperBeatMs,
    log,
  })
  return {
    config,
    folders,
    store,
    hub,
    policies: openPolicies({ folder: config.config, memory: folders.policies, log }),
    presence: presence(Date.now),
    push: pushService({
      keyFile: folders.pushKey,
      subject: config.publicUrl?.startsWith('https:') ? config.publicUrl : 'mailto:nobody@anchorhold.invalid',
      ownHosts: config.pushHosts,
      log,
    }),
    watches: watches(),
    passwords: passwords(),
    attempts: attempts({ now: Date.now, random: randomBytes }),
    sources,
    gate,
    keepers,
    newUser,
    doctor: doctorProcess(runtime, { home: config.home, memory: folders.doctor, images: folders.images }, log),
    now: Date.now,
    random: randomBytes,
    log,
  }
}
