import type { Actor } from '@anchorhold/core/actors'
import type { PolicyText, WritePolicy } from '@anchorhold/protocol/api/policy-files'
import { Failure } from '@anchorhold/protocol/failures'
import { createHash } from 'node:crypto'
import { by, type Parts, type Reads, require } from '../parts.ts'
import { requireProof } from '../people/step-up.ts'

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

/** A policy file with its comments. What is in force is everybody's to see; what its writer notes beside it is the owners'. */
export function readPolicyFile(parts: Reads & Pick<Parts, 'policies'>, actor: Actor, name: string | null): PolicyText {
  require(parts, actor, 'policy.write')
  // Whoever is about to change the file wants it as it is now, not as it was when it was last heard of.
  parts.policies.look()
  return shownFile(parts, name)
}

/** Replaces a policy file. Invariant: what cannot be used is not written, and what somebody else has written meanwhile is not lost. */
export function writePolicyFile(
  parts: Reads & Pick<Parts, 'now' | 'policies'>,
  actor: Actor,
  { name, text, was }: WritePolicy,
): PolicyText {
  require(parts, actor, 'policy.write')
  // It is a rule for all, or the end of one.
  requireProof(parts, actor, 'write a policy file')
  parts.policies.look()
  const before = shownFile(parts, name ?? null)
  if (before.sha256 !== was)
    throw new Failure('conflict', `Cannot write "${before.file}": it was changed since it was read`, {
      hint: 'Read it again and make the change there',
    })
  parts.policies.write(name ?? null, text, by(actor))
  return shownFile(parts, name ?? null)
}

function shownFile({ policies }: Pick<Parts, 'policies'>, name: string | null): PolicyText {
  const found = name === null ? policies.house() : policies.named(name)
  if (found === null || found.inForce === 'gone')
    return { file: `policies/${name}.yaml`, name, in_force: 'current', problems: [], text: '', sha256: sha256('') }
  const { file, inForce, problems, text } = found
  return { file, name, in_force: inForce, problems: [...problems], text, sha256: sha256(text) }
}
