import { randomBytes } from 'node:crypto'
import { link, open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Failure } from '@anchorhold/protocol/failures'
import { keyBytes, readKey, readOrMakeKey, type Secrets, secretsUnder } from './secrets.ts'

/** The keys that secrets are sealed under: what is sealed goes under the first, what is opened may be under any.
 *  Invariant: a key goes only when whoever keeps the boxes has said that none is under it any more. */
export type KeyRing = Secrets & {
  /** Begins a new key; does nothing when one has been begun already, or comes from the environment. */
  begin(): Promise<void>
  /** The key before it goes; refused as long as one of these boxes is not under the new one. */
  finish(boxes: readonly string[]): Promise<void>
}

/** `ENCRYPTION_KEY` where it is set, and otherwise the key in `keyFile`, which is made when there is none. */
export async function keyRing(keyFile: string, given?: string): Promise<KeyRing> {
  const nextFile = `${keyFile}.next`
  const fromEnv = given === undefined ? null : secretsUnder(keyOf(given))
  const next = await readKey(nextFile)
  // With a key from the environment a file is looked at for what was sealed before that was set, and none is made.
  const inFile = fromEnv === null ? await readOrMakeKey(keyFile) : await readKey(keyFile)
  let ring = [fromEnv, next === null ? null : secretsUnder(next), inFile === null ? null : secretsUnder(inFile)].filter(
    (one) => one !== null,
  )

  const holding = (box: string) => ring.find((secrets) => secrets.holds(box)) ?? ring[0]!
  return {
    seal: (plaintext, kind) => ring[0]!.seal(plaintext, kind),
    open: (box) => holding(box).open(box),
    openInside: (box) => holding(box).openInside(box),
    holds: (box) => ring.some((secrets) => secrets.holds(box)),
    async begin() {
      if (fromEnv !== null || (await readKey(nextFile)) !== null) return
      const key = randomBytes(keyBytes)
      await writeKey(nextFile, key)
      ring = [secretsUnder(key), ...ring]
    },
    async finish(boxes) {
      if (!boxes.every((box) => ring[0]!.holds(box)))
        throw new Failure('conflict', 'Cannot let the old key go: something is stored that was sealed under it', {
          hint: 'Begin again: anchorhold secret rotate-key',
        })
      if (fromEnv !== null) {
        await Promise.all([rm(keyFile, { force: true }), rm(nextFile, { force: true })])
        ring = [fromEnv]
        return
      }
      if ((await readKey(nextFile)) === null) return
      await rename(nextFile, keyFile)
      await syncFolder(dirname(keyFile))
      ring = ring.slice(0, 1)
    },
  }
}

async function writeKey(path: string, key: Uint8Array): Promise<void> {
  const draft = `${path}.${randomBytes(6).toString('hex')}`
  const file = await open(draft, 'wx', 0o600)
  try {
    await file.writeFile(key)
    await file.sync()
    await link(draft, path)
  } finally {
    await file.close()
    await rm(draft)
  }
  await syncFolder(dirname(path))
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r')
  await handle.sync().finally(() => handle.close())
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
