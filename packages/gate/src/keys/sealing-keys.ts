import { randomBytes } from 'node:crypto'
import { Failure } from '@anchorhold/protocol/failures'
import type { KeyPlace } from './key-places.ts'
import { keyBytes, type Secrets, secretsUnder } from './secrets.ts'

/** The keys that secrets are sealed under: what is sealed goes under the first, what is opened may be under any.
 *  Invariant: a key goes only when whoever keeps the boxes has said that none is under it any more. */
export type SealingKeys = Secrets & {
  /** Begins a new key; does nothing when one has been begun already, or comes from the environment. */
  begin(): Promise<void>
  /** The key before it goes; refused as long as one of these boxes is not under the new one. */
  finish(boxes: readonly string[]): Promise<void>
}

export type SealingKeysOptions = {
  /** `ENCRYPTION_KEY`, where it is set. */
  readonly given?: string | undefined
  /** Where keys are kept: in the first, unless one is given; the others are looked at for what was sealed before. */
  readonly places: readonly [KeyPlace, ...KeyPlace[]]
}

export async function sealingKeys({ given, places }: SealingKeysOptions): Promise<SealingKeys> {
  const fromEnv = given === undefined ? null : secretsUnder(keyOf(given))
  const [first, ...others] = places
  // With a key from the environment the places are looked at for what was sealed before that was set, and no key is made.
  const made = fromEnv === null ? await first.keyOrNew() : null
  const found: (Uint8Array | null)[] = [await first.next(), made ?? (await first.key())]
  for (const other of others) found.push(await other.next(), await other.key())
  let ring = [fromEnv, ...found.map((key) => (key === null ? null : secretsUnder(key)))].filter((one) => one !== null)

  const holding = (box: string) => ring.find((secrets) => secrets.holds(box)) ?? ring[0]!
  return {
    seal: (plaintext, kind) => ring[0]!.seal(plaintext, kind),
    open: (box) => holding(box).open(box),
    openInside: (box) => holding(box).openInside(box),
    holds: (box) => ring.some((secrets) => secrets.holds(box)),
    async begin() {
      if (fromEnv !== null || (await first.next()) !== null) return
      const key = randomBytes(keyBytes)
      await first.begin(key)
      ring = [secretsUnder(key), ...ring]
    },
    async finish(boxes) {
      if (!boxes.every((box) => ring[0]!.holds(box)))
        throw new Failure('conflict', 'Cannot let the old key go: something is stored that was sealed under it', {
          hint: 'Begin again: anchorhold secret rotate-key',
        })
      if (fromEnv === null) {
        if ((await first.next()) === null) return
        await first.promote()
      } else await first.clear()
      for (const other of others) await other.clear()
      ring = ring.slice(0, 1)
    },
  }
}

/** Thirty-two bytes, in hexadecimal or base64: words would be too easy to guess. */
function keyOf(text: string): Uint8Array {
  const trimmed = text.trim()
  const key = /^[0-9a-f]{64}$/i.test(trimmed) ? Buffer.from(trimmed, 'hex') : Buffer.from(trimmed, 'base64')
  if (key.length === keyBytes && /^[A-Za-z0-9+/_=-]+$/.test(trimmed)) return key
  throw new Failure('gate_unavailable', `Cannot use ENCRYPTION_KEY: it is not ${keyBytes} bytes in hexadecimal or base64`, {
    hint: 'Make one: openssl rand -hex 32',
  })
}
