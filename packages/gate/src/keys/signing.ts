import { headMessage } from '@anchorhold/core/chain'
import type { Head, SignedHead, SigningKey } from '@anchorhold/protocol/heads'
import { createHash, createPrivateKey, createPublicKey, sign } from 'node:crypto'
import { readOrMakeKey } from './secrets.ts'

/** Signs heads of logs, and nothing else: what is signed is put together here, from a head. */
export type Signer = { readonly publicKey: SigningKey; sign(head: Head): SignedHead }

/** RFC 8410: what stands before the 32 bytes of a private Ed25519 key. */
const pkcs8 = Buffer.from('302e020100300506032b657004220420', 'hex')
const publicKeyBytes = 32

/** Signs with the key in `keyFile`, which is made when there is none. */
export async function fileSigner(keyFile: string): Promise<Signer> {
  const key = createPrivateKey({ key: Buffer.concat([pkcs8, await readOrMakeKey(keyFile)]), format: 'der', type: 'pkcs8' })
  const raw = createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(-publicKeyBytes)
  const publicKey = { key: raw.toString('hex'), fingerprint: createHash('sha256').update(raw).digest('hex') }
  return {
    publicKey,
    sign: (head) => ({ ...publicKey, signature: sign(null, Buffer.from(headMessage(head)), key).toString('hex') }),
  }
}
