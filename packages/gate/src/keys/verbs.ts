import type { Verbs } from '../verbs.ts'
import type { SealingKeys } from './sealing-keys.ts'
import { kindOf } from './secrets.ts'
import type { Signer } from './signing.ts'

export type KeyVerbsParts = {
  readonly secrets: SealingKeys
  readonly signer: Signer
  /** Puts every box that a gate after this one would find in its leases under the new key. */
  readonly sealServedAnew: (anew: (box: string) => string) => Promise<void>
}

/** What the gate does with its keys, and with nothing else. */
export function keyVerbs({
  secrets,
  signer,
  sealServedAnew,
}: KeyVerbsParts): Verbs<'seal' | 'open_inside' | 'reseal' | 'resealed' | 'sign'> {
  const anew = (box: string) => secrets.seal(secrets.open(box), kindOf(box))
  return {
    seal: ({ plaintext, inside }) => ({ box: secrets.seal(plaintext, inside === true ? 'inside' : 'kept') }),
    open_inside: ({ boxes }) => ({ plaintexts: boxes.map((box) => secrets.openInside(box)) }),
    async reseal({ boxes }) {
      await secrets.begin()
      return { boxes: boxes.map(anew) }
    },
    async resealed({ boxes }) {
      // Before the old key goes.
      await sealServedAnew(anew)
      await secrets.finish(boxes)
    },
    sign: ({ head }) => (head === null ? signer.publicKey : signer.sign(head)),
  }
}
