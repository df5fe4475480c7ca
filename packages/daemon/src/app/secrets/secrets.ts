import type { Actor } from '@anchorhold/core/actors'
import type { CredentialView, SecretView } from '@anchorhold/protocol/api/secrets'
import { Failure } from '@anchorhold/protocol/failures'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { z } from 'zod'
import type { SecretRow } from '../../store/store.ts'
import { credentialsIn } from './credentials.ts'
import { variableFor } from './inside-secrets.ts'
import { openWindows } from '../keepers/keeper-start.ts'
import { transaction, type Writes } from '../../transaction.ts'
import { by, type Delivers, type Holds, type Parts, type Reads, require } from '../parts.ts'
import { requireProof } from '../people/step-up.ts'

/** No secret ever comes back out of here: what is sealed is opened in the gate alone. */
export function listSecrets(
  parts: Reads & Pick<Parts, 'config'>,
  actor: Actor,
): { readonly secrets: SecretView[]; readonly credentials: CredentialView[] } {
  require(parts, actor, 'secrets.write')
  return {
    secrets: parts.store.secrets.list().map(view),
    credentials: credentialsIn(parts).map(({ host, port, method, path, put, secret, env, for: users }) => ({
      ...{ host, port, as: put.as, secret },
      ...(method === null ? {} : { method: [...method] }),
      ...(path === null ? {} : { path }),
      ...(env === null ? {} : { env }),
      ...(users === null ? {} : { for: [...users] }),
    })),
  }
}

const view = ({ name, mask, changedAt, inside }: SecretRow): SecretView => ({ name, mask, changed_at: changedAt, inside })

export async function putSecret(
  parts: Holds & Delivers,
  actor: Actor,
  name: string,
  { value, inside = false }: { readonly value: string; readonly inside?: boolean | undefined },
): Promise<SecretView> {
  require(parts, actor, 'secrets.write')
  requireProof(parts, actor, `store the secret "${name}"`)
  if (inside) variableFor(name)
  const { box } = z.object({ box: z.string() }).parse(await parts.gate.do({ do: 'seal', plaintext: value, inside }))
  const row: SecretRow = { name, box, mask: maskOf(value), changedAt: parts.now(), inside }
  transaction(parts, (tx) => {
    require(tx, actor, 'secrets.write')
    tx.store.secrets.put(row)
    tx.note({
      type: 'secret.changed',
      body: { secret: name, what: 'put', ...(inside ? { inside: true as const } : {}), ...by(actor) },
    })
  })
  await reopenWindows(parts)
  return view(row)
}

/** Enough to tell one from another; of a short one, nothing. */
function maskOf(value: string): string {
  return value.length < 16 ? '…' : `${value.slice(0, 3)}…${value.slice(-2)}`
}

export async function deleteSecret(parts: Holds & Delivers, actor: Actor, name: string): Promise<void> {
  require(parts, actor, 'secrets.write')
  requireProof(parts, actor, `forget the secret "${name}"`)
  const bound = credentialsIn(parts).find(({ secret }) => secret === name)
  if (bound !== undefined)
    throw new Failure('conflict', `Cannot forget the secret "${name}": a credential for "${bound.host}" names it`, {
      hint: 'Take it out of credentials.yaml first',
    })
  transaction(parts, (tx) => {
    if (!tx.store.secrets.remove(name)) throw new Failure('not_found', `There is no secret "${name}"`)
    tx.note({ type: 'secret.changed', body: { secret: name, what: 'removed', ...by(actor) } })
  })
  await reopenWindows(parts)
}

/** Everything under a new key: until it is stored, the gate opens both. What was sealed before the new key was made may be stored after
 *  the list was read, so it is read again until all in it is under the new key. Invariant: whoever seals stores in the same turn in
 *  which the gate's answer comes, and the gate answers in order; so what is under the old key is stored a turn after the first answer. */
export async function rotateKey(parts: Holds & Delivers, actor: Actor): Promise<{ readonly resealed: number }> {
  require(parts, actor, 'secrets.write')
  requireProof(parts, actor, 'make a new key')
  const anew = new Set<string>()
  let left = storedBoxes(parts)
  do {
    const { boxes } = z.object({ boxes: z.array(z.string()) }).parse(await parts.gate.do({ do: 'reseal', boxes: left }))
    for (const box of boxes) anew.add(box)
    replaceBoxes(parts, new Map(left.map((box, at) => [box, boxes[at]!])))
    await nextTurn()
    left = storedBoxes(parts).filter((box) => !anew.has(box))
  } while (left.length > 0)
  transaction(parts, (tx) => tx.note({ type: 'secret.key_rotated', body: { resealed: anew.size, ...by(actor) } }))
  await reopenWindows(parts)
  await parts.gate.do({ do: 'resealed', boxes: storedBoxes(parts) })
  return { resealed: anew.size }
}

function storedBoxes({ store }: Reads): string[] {
  const providers = store.providers.list().flatMap(({ credential }) => (credential.from === 'sealed' ? [credential.box] : []))
  return [...store.secrets.list().map(({ box }) => box), ...providers]
}

function replaceBoxes(parts: Writes, under: ReadonlyMap<string, string>): void {
  transaction(parts, ({ store }) => {
    for (const row of store.secrets.list()) store.secrets.put({ ...row, box: under.get(row.box) ?? row.box })
    for (const row of store.providers.list())
      if (row.credential.from === 'sealed')
        store.providers.put({ ...row, credential: { from: 'sealed', box: under.get(row.credential.box) ?? row.credential.box } })
  })
}

/** Sessions that are being served go by what is stored now. */
async function reopenWindows(parts: Holds): Promise<void> {
  await Promise.all(
    parts.keepers.sessions.map((id) =>
      openWindows(parts, id).catch((error: unknown) => {
        if (!(error instanceof Failure)) throw error
        parts.log(`session ${id}: ${error.message}`)
      }),
    ),
  )
}
