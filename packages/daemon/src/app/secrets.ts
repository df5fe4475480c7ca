import type { Actor } from '@anchorhold/core/actors'
import type { CredentialView, SecretView } from '@anchorhold/protocol/api/secrets'
import { Failure } from '@anchorhold/protocol/failures'
import { z } from 'zod'
import type { SecretRow } from '../store/store.ts'
import { credentialsIn } from './credentials.ts'
import { openWindows } from './keeper-start.ts'
import { by, note, type Parts, require } from './parts.ts'
import { requireProof } from './step-up.ts'

/** No secret ever comes back out of here: what is sealed is opened in the gate alone. */
export function listSecrets(
  parts: Parts,
  actor: Actor,
): { readonly secrets: SecretView[]; readonly credentials: CredentialView[] } {
  require(parts, actor, 'secrets.write')
  return {
    secrets: parts.store.secrets.list().map(view),
    credentials: credentialsIn(parts).map(({ host, port, method, path, put, secret, env }) => ({
      ...{ host, port, as: put.as, secret },
      ...(method === null ? {} : { method: [...method] }),
      ...(path === null ? {} : { path }),
      ...(env === null ? {} : { env }),
    })),
  }
}

const view = ({ name, mask, changedAt }: SecretRow): SecretView => ({ name, mask, changed_at: changedAt })

export async function putSecret(
  parts: Parts,
  actor: Actor,
  name: string,
  { value }: { readonly value: string },
): Promise<SecretView> {
  require(parts, actor, 'secrets.write')
  requireProof(parts, actor, `store the secret "${name}"`)
  const { box } = z.object({ box: z.string() }).parse(await parts.gate.do({ do: 'seal', plaintext: value }))
  const row: SecretRow = { name, box, mask: maskOf(value), changedAt: parts.now() }
  parts.store.atomically(() => {
    parts.store.secrets.put(row)
    note(parts, { type: 'secret.changed', body: { secret: name, what: 'put', ...by(actor) } })
  })
  await tellWindows(parts)
  return view(row)
}

/** Enough to tell one from another; of a short one, nothing. */
function maskOf(value: string): string {
  return value.length < 16 ? '…' : `${value.slice(0, 3)}…${value.slice(-2)}`
}

export async function deleteSecret(parts: Parts, actor: Actor, name: string): Promise<void> {
  require(parts, actor, 'secrets.write')
  const bound = credentialsIn(parts).find(({ secret }) => secret === name)
  if (bound !== undefined)
    throw new Failure('conflict', `Cannot forget the secret "${name}": a credential for "${bound.host}" names it`, {
      hint: 'Take it out of credentials.yaml first',
    })
  parts.store.atomically(() => {
    if (!parts.store.secrets.remove(name)) throw new Failure('not_found', `There is no secret "${name}"`)
    note(parts, { type: 'secret.changed', body: { secret: name, what: 'removed', ...by(actor) } })
  })
  await tellWindows(parts)
}

/** Everything under a new key, in one transaction: until it is stored, the gate opens both. */
export async function rotateKey(parts: Parts, actor: Actor): Promise<{ readonly resealed: number }> {
  require(parts, actor, 'secrets.write')
  requireProof(parts, actor, 'make a new key')
  const { store } = parts
  const secrets = store.secrets.list()
  const providers = store.providers
    .list()
    .flatMap((row) => (row.credential.from === 'sealed' ? [{ row, box: row.credential.box }] : []))
  const before = [...secrets.map(({ box }) => box), ...providers.map(({ box }) => box)]
  const { boxes } = z.object({ boxes: z.array(z.string()) }).parse(await parts.gate.do({ do: 'reseal', boxes: before }))
  const under = new Map(before.map((box, at) => [box, boxes[at]!]))
  store.atomically(() => {
    // What was stored meanwhile is under the new key already.
    for (const row of store.secrets.list()) store.secrets.put({ ...row, box: under.get(row.box) ?? row.box })
    for (const row of store.providers.list())
      if (row.credential.from === 'sealed')
        store.providers.put({ ...row, credential: { from: 'sealed', box: under.get(row.credential.box) ?? row.credential.box } })
    note(parts, { type: 'secret.key_rotated', body: { resealed: boxes.length, ...by(actor) } })
  })
  await tellWindows(parts)
  await parts.gate.do({ do: 'resealed' })
  return { resealed: boxes.length }
}

/** Sessions that are being served go by what is stored now. */
async function tellWindows(parts: Parts): Promise<void> {
  await Promise.all(
    parts.keepers.sessions.map((id) =>
      openWindows(parts, id).catch((error: unknown) => {
        if (!(error instanceof Failure)) throw error
        parts.log(`session ${id}: ${error.message}`)
      }),
    ),
  )
}
