import { type Actor, seenBy } from '@anchorhold/core/actors'
import type { Status } from '@anchorhold/protocol/api/daemon'
import type { DoctorReport } from '@anchorhold/protocol/doctor'
import { Failure } from '@anchorhold/protocol/failures'
import { sessionStates } from '@anchorhold/protocol/sessions'
import { statfs } from 'node:fs/promises'
import { troubleWithCredentials } from '../secrets/credentials.ts'
import { panicOver } from './panic.ts'
import { transaction, type Writes } from '../../transaction.ts'
import { by, type Judges, ownerOf, type Parts, type Reads, require } from '../parts.ts'
import { wasRefused } from '../money/provider-refused.ts'
import { providerFor, troubleWith } from '../money/providers.ts'

export async function status(
  parts: Judges & Pick<Parts, 'doctor' | 'gate' | 'keepers'>,
  actor: Actor,
  about: { readonly version: string; readonly url: string; readonly startedAt: number },
): Promise<Status> {
  require(parts, actor, 'house.read')
  const rung = await rungInForce(parts)
  const provider = providerFor(parts, null)
  const counts = parts.store.sessions.counts(seenBy(actor))
  return {
    version: about.version,
    pid: process.pid,
    url: about.url,
    started_at: about.startedAt,
    state_folder: parts.config.state,
    rung: parts.config.rung,
    rung_available: rung?.available ?? false,
    limits_missing: (rung?.limits ?? [])
      .filter(({ enforcement }) => enforcement === 'not enforced')
      .map(({ name, how }) => ({ name, how })),
    rung_missing: rung?.missing ?? [],
    provider: provider.name,
    provider_trouble: await troubleWith(parts, provider),
    provider_refused: wasRefused(parts, provider),
    other_providers: await othersInTrouble(parts, actor, provider.name),
    simulated: provider.kind === 'rehearsal',
    gate: parts.gate.up ? 'up' : 'down',
    sessions: Object.fromEntries(sessionStates.map((state) => [state, counts[state] ?? 0])) as Status['sessions'],
    keepers: parts.keepers.count,
    key_store: parts.config.env.ENCRYPTION_KEY === undefined ? parts.config.keyStore : 'environment',
    disk: await diskOf(parts),
    policy_trouble: parts.policies
      .list()
      .flatMap(({ inForce, problems }) =>
        inForce === 'last good' || inForce === 'locked' ? problems.slice(0, 1).map((one) => ({ ...one, in_force: inForce })) : [],
      ),
    panic: panicShown(parts, actor),
    credentials_trouble: troubleWithCredentials(parts),
  }
}

function panicShown(parts: Reads, actor: Actor): Status['panic'] {
  const one = panicOver(parts, ownerOf(actor))
  return one === null ? null : { at: one.at, actor: one.actor, everybodys: one.user === null }
}

/** Sessions looked at, the most recently active first. */
const sessionsMax = 200

/** Who works with another provider than the usual one would hear of its trouble from nowhere else. */
async function othersInTrouble(
  parts: Reads & Pick<Parts, 'gate'>,
  actor: Actor,
  usual: string,
): Promise<Status['other_providers']> {
  const seen = parts.store.sessions.list({
    archived: false,
    state: null,
    before: null,
    limit: sessionsMax,
    seenBy: seenBy(actor),
  })
  const names = [...new Set(seen.map(({ provider }) => provider))].filter((name) => name !== usual && name !== 'rehearsal')
  const found = await Promise.all(
    names.flatMap((name) => {
      const row = parts.store.providers.get(name)
      return row === null
        ? []
        : [troubleWith(parts, row).then((trouble) => ({ provider: name, trouble, refused: wasRefused(parts, row) }))]
    }),
  )
  return found.filter(({ trouble, refused }) => trouble !== null || refused)
}

/** How much room is left for logs and workspaces. */
async function diskOf({ config }: Pick<Parts, 'config'>): Promise<Status['disk']> {
  try {
    const { bavail, bsize } = await statfs(config.state)
    const free = bavail * bsize
    return { free_bytes: free, low: free < config.diskLowBytes }
  } catch {
    return null
  }
}

/** A status is wanted most when something is wrong: it is given also when the machine could not be looked at. */
async function rungInForce(
  parts: Pick<Parts, 'config' | 'doctor'>,
): Promise<Pick<DoctorReport['rungs'][number], 'available' | 'missing' | 'limits'> | undefined> {
  try {
    const { rungs } = await parts.doctor({ fresh: false, rung: parts.config.rung })
    return rungs.find((one) => one.rung === parts.config.rung)
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    return { available: false, limits: [], missing: [{ what: error.message, remedy: error.hint ?? '' }] }
  }
}

export function health(
  parts: Reads & Pick<Parts, 'gate'>,
  actor: Actor,
): { readonly ok: boolean; readonly gate: boolean; readonly store: boolean } {
  require(parts, actor, 'house.read')
  parts.store.sessions.counts(seenBy(actor))
  return { ok: parts.gate.up, gate: parts.gate.up, store: true }
}

export function doctor(parts: Reads & Pick<Parts, 'doctor'>, actor: Actor): Promise<DoctorReport> {
  require(parts, actor, 'house.read')
  return parts.doctor({ fresh: false })
}

/** Whether the daemon may be ended; written down first, since nothing can be afterwards. */
export function mayShutDown(parts: Writes, actor: Actor, { all }: { readonly all: boolean }): void {
  transaction(parts, (tx) => {
    require(tx, actor, 'house.run')
    tx.note({ type: 'shutdown', body: { all, ...by(actor) } })
  })
}
