import type { Actor } from '@anchorhold/core/actors'
import { type SecretName, variableOf } from '@anchorhold/protocol/credentials'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionOptions } from '@anchorhold/protocol/session-options'
import { z } from 'zod'
import type { SecretRow } from '../../store/store.ts'
import { type Parts, type Reads, require } from '../parts.ts'
import { requireProof } from '../people/step-up.ts'

/** The one exception to that no secret enters a cell: those that the owner marks for it, and gives to a session by name. */

/** Refuses a session that is to be given what it may not be. */
export function requireInside(parts: Reads & Pick<Parts, 'now'>, actor: Actor, { secrets = [] }: SessionOptions): void {
  if (secrets.length === 0) return
  require(parts, actor, 'secrets.write')
  requireProof(parts, actor, 'give a secret to a cell')
  for (const name of secrets) boxOf(parts, name)
}

/** What a cell that is being started finds in its variables. */
export async function insideVariables(
  parts: Reads & Pick<Parts, 'gate'>,
  { secrets = [] }: SessionOptions,
): Promise<Record<string, string>> {
  if (secrets.length === 0) return {}
  const boxes = secrets.map((name) => boxOf(parts, name))
  const opened = await parts.gate.do({ do: 'open_inside', boxes })
  const { plaintexts } = z.object({ plaintexts: z.array(z.string()) }).parse(opened)
  return Object.fromEntries(secrets.map((name, at) => [variableFor(name), plaintexts[at]!]))
}

export function variableFor(name: SecretName): string {
  const variable = variableOf(name)
  if (variable !== null) return variable
  throw new Failure(
    'bad_request',
    `Cannot give the secret "${name}" to a cell: a variable of that name is one that cells live by`,
    {
      hint: 'Store it under another name',
    },
  )
}

function boxOf({ store }: Reads, name: SecretName): SecretRow['box'] {
  const row = store.secrets.get(name)
  if (row?.inside === true) return row.box
  const why = row === null ? 'there is none of that name' : 'it is not marked for that'
  throw new Failure('bad_request', `Cannot give the secret "${name}" to a cell: ${why}`, {
    hint: `Store it so that code in the cell may read it: anchorhold secret add ${name} --inside. Better bind it to an endpoint in credentials.yaml: then no cell needs it`,
  })
}
