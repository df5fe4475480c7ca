import { createECDH, hkdfSync } from 'node:crypto'
import { createSecureContext, type SecureContext } from 'node:tls'
import { whenNeeded } from '@anchorhold/core/when-needed'
import type { Target } from '@anchorhold/core/net/target'
import type { SessionId } from '@anchorhold/protocol/ids'

/** The authority that one session's cell trusts, and nobody else.
 *  Invariant: its key is in the gate's memory alone; it follows from the gate's own and the session's id, so that a cell goes on
 *  trusting the gate that is started after this one. */
export type SessionCa = {
  /** Its certificate, for a cell that is about to be made. A cell that stands knows it, from whichever gate. */
  certificate(): Promise<string>
  /** What the gate shows to a client in the cell that wants to speak to this host. */
  contextFor(target: Target): Promise<SecureContext>
}

const dayMs = 24 * 60 * 60 * 1000
/** Clocks inside machines may be behind. */
const earlierMs = dayMs
/** A cell gets the certificate anew whenever it is started, and none stands for as long as this. */
const authorityMs = 90 * dayMs
const hostMs = 7 * dayMs
/** Made anew when it is this old. */
const renewMs = 5 * dayMs
const hostsMax = 256

/** Makes nothing before it is needed: of the cells that a gate finds, few will ever have their TLS opened. */
export function sessionCa(seed: Uint8Array, session: SessionId, now: () => number): SessionCa {
  const name = `Anchorhold ${session}`
  const ownKeys = whenNeeded(() => derivedKeys(seed, session))
  const hostKeys = whenNeeded(async () => {
    const { privateKey, publicKey } = await crypto.subtle.generateKey(curve, true, ['sign', 'verify'])
    return { publicKey, pem: pem('PRIVATE KEY', await crypto.subtle.exportKey('pkcs8', privateKey)) }
  })
  const made = new Map<string, { readonly at: number; readonly context: Promise<SecureContext> }>()

  function validity(lastsMs: number) {
    return { notBefore: new Date(now() - earlierMs), notAfter: new Date(now() + lastsMs) }
  }
  async function make(target: Target): Promise<SecureContext> {
    const { hostCertificate } = await import('./certificates.ts')
    const [keys, host] = await Promise.all([ownKeys(), hostKeys()])
    const cert = await hostCertificate({ name, keys }, target, host.publicKey, validity(hostMs))
    return createSecureContext({ key: host.pem, cert, minVersion: 'TLSv1.2' })
  }

  return {
    async certificate() {
      const { authorityCertificate } = await import('./certificates.ts')
      return authorityCertificate(name, await ownKeys(), validity(authorityMs))
    },
    contextFor(target) {
      const found = made.get(target.host)
      const isFresh = found !== undefined && now() - found.at < renewMs
      const one = isFresh ? found : { at: now(), context: make(target) }
      // The one that was used last goes last.
      made.delete(target.host)
      made.set(target.host, one)
      const [oldest] = made.keys()
      if (made.size > hostsMax && oldest !== undefined) made.delete(oldest)
      return one.context
    },
  }
}

const curve = { name: 'ECDSA', namedCurve: 'P-256' } as const

async function derivedKeys(seed: Uint8Array, session: SessionId): Promise<CryptoKeyPair> {
  const { d, x, y } = derivedPoint(seed, session)
  const jwk = { kty: 'EC', crv: 'P-256', x, y }
  const [publicKey, privateKey] = await Promise.all([
    crypto.subtle.importKey('jwk', jwk, curve, true, ['verify']),
    crypto.subtle.importKey('jwk', { ...jwk, d }, curve, false, ['sign']),
  ])
  return { publicKey, privateKey }
}

function derivedPoint(seed: Uint8Array, session: SessionId) {
  // Of all numbers of this length hardly any is none of the curve's; should it happen, the next one is taken.
  for (let round = 0; ; round++) {
    const scalar = Buffer.from(hkdfSync('sha256', seed, session, `anchorhold session authority ${round}`, 32))
    const point = createECDH('prime256v1')
    try {
      point.setPrivateKey(scalar)
    } catch {
      continue
    }
    const open = point.getPublicKey()
    const [x, y] = [open.subarray(1, 33), open.subarray(33)].map((half) => half.toString('base64url'))
    return { d: scalar.toString('base64url'), x: x!, y: y! }
  }
}

function pem(label: string, der: ArrayBuffer): string {
  const lines = Buffer.from(der)
    .toString('base64')
    .match(/.{1,64}/g)!
  return `-----BEGIN ${label}-----\n${lines.join('\n')}\n-----END ${label}-----\n`
}
