import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import { link, mkdir, open, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Failure } from '@anchorhold/protocol/failures'

/** Turns secrets into ciphertext that may be kept anywhere, and back. */
export type Secrets = {
  seal(plaintext: string, kind?: BoxKind): string
  open(box: string): string
  /** The same for what may be given to a cell: of any other box the gate lets nothing out. */
  openInside(box: string): string
  /** Whether it was sealed under a key that is at hand. */
  holds(box: string): boolean
}

export const keyBytes = 32
const ivBytes = 12
const tagBytes = 16
/** What may become of a secret: it stays in the gate, or the owner has said that a cell may be given it. */
export type BoxKind = 'kept' | 'inside'
/** The first word of every box, which nobody can change without the key. Another cipher gets another one. */
const versions: Readonly<Record<BoxKind, string>> = { kept: 'ah1', inside: 'ah1i' }

export const kindOf = (box: string): BoxKind => (box.startsWith(`${versions.inside}.`) ? 'inside' : 'kept')

/** AES-256-GCM. A box is `version.keyId.iv.ciphertext+tag`: it says which key opens it, so that keys can be changed. */
export function secretsUnder(key: Uint8Array): Secrets {
  const keyId = createHash('sha256').update('anchorhold key id').update(key).digest('hex').slice(0, 8)
  const prefixOf = (kind: BoxKind) => `${versions[kind]}.${keyId}`
  const secrets: Secrets = {
    seal(plaintext, kind = 'kept') {
      const prefix = prefixOf(kind)
      const iv = randomBytes(ivBytes)
      const cipher = createCipheriv('aes-256-gcm', key, iv).setAAD(Buffer.from(prefix))
      const sealed = Buffer.concat([cipher.update(plaintext, 'utf8'), cipher.final(), cipher.getAuthTag()])
      return `${prefix}.${iv.toString('base64url')}.${sealed.toString('base64url')}`
    },
    holds: (box) => box.startsWith(`${prefixOf(kindOf(box))}.`),
    openInside(box) {
      if (kindOf(box) === 'inside') return secrets.open(box)
      throw new Failure('forbidden', 'Cannot give a secret to a cell: its owner has not marked it for that')
    },
    open(box) {
      const version = versions[kindOf(box)]
      const [boxVersion, boxKey, iv, sealed, ...more] = box.split('.')
      if (boxVersion !== version || iv === undefined || sealed === undefined || more.length > 0) {
        throw new Failure('provider_unavailable', 'Cannot open a sealed secret: it is not in a form that this release knows')
      }
      if (boxKey !== keyId) {
        throw new Failure('provider_unavailable', `Cannot open a sealed secret: it was sealed with another key ("${boxKey}")`, {
          hint: "Bring back the gate's old key file, or enter the secret again",
        })
      }
      const bytes = Buffer.from(sealed, 'base64url')
      try {
        if (bytes.length < tagBytes) throw new RangeError('too short')
        const decipher = createDecipheriv('aes-256-gcm', key, Buffer.from(iv, 'base64url'), { authTagLength: tagBytes })
        decipher.setAAD(Buffer.from(prefixOf(kindOf(box)))).setAuthTag(bytes.subarray(-tagBytes))
        return Buffer.concat([decipher.update(bytes.subarray(0, -tagBytes)), decipher.final()]).toString('utf8')
      } catch (cause) {
        throw new Failure('provider_unavailable', 'Cannot open a sealed secret: it was changed or cut short', { cause })
      }
    },
  }
  return secrets
}

/** A key of 32 bytes that this user alone can read. */
export async function readOrMakeKey(path: string): Promise<Uint8Array> {
  const found = await readKey(path)
  if (found !== null) return found
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  // Written whole under another name and then linked: nobody ever sees half a key, and of two makers one wins.
  const draft = `${path}.${randomBytes(6).toString('hex')}`
  const file = await open(draft, 'wx', 0o600)
  try {
    await file.writeFile(randomBytes(keyBytes))
    await file.sync()
    await link(draft, path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    })
  } finally {
    await file.close()
    await rm(draft)
  }
  const key = await readKey(path)
  if (key === null) throw new Error(`The key file "${path}" vanished while it was made`)
  return key
}

export async function readKey(path: string): Promise<Uint8Array | null> {
  const file = await open(path, 'r').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw error
  })
  if (file === null) return null
  try {
    const { mode, size } = await file.stat()
    if ((mode & 0o077) !== 0) {
      throw new Failure('gate_unavailable', `Cannot use the key file "${path}": others can read or write it`, {
        hint: `chmod 600 ${path}`,
      })
    }
    if (size !== keyBytes)
      throw new Failure('gate_unavailable', `Cannot use the key file "${path}": it is not ${keyBytes} bytes long`)
    return await file.readFile()
  } finally {
    await file.close()
  }
}
