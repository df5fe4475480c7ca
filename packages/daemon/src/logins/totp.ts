import { createHmac, timingSafeEqual } from 'node:crypto'

/** Codes of an authenticator: https://www.rfc-editor.org/rfc/rfc6238. What every app reads is SHA-1, six digits, thirty seconds;
 *  the others are for the RFC's own vectors. */
export type TotpOptions = { readonly hash?: 'sha1' | 'sha256' | 'sha512'; readonly digits?: number }

const stepMs = 30_000
/** A phone's clock may be this many steps off. */
const driftSteps = 1

export function totp(secret: Uint8Array, step: number, { hash = 'sha1', digits = 6 }: TotpOptions = {}): string {
  const counter = Buffer.alloc(8)
  counter.writeBigUInt64BE(BigInt(step))
  const mac = createHmac(hash, secret).update(counter).digest()
  const offset = mac.at(-1)! & 0xf
  return String((mac.readUInt32BE(offset) & 0x7fff_ffff) % 10 ** digits).padStart(digits, '0')
}

export const stepAt = (ms: number): number => Math.floor(ms / stepMs)

/** The step that a code is of, or null. Only steps after `lastStep` count, so that nobody who saw a code can use it again. */
export function stepOfCode(secret: Uint8Array, code: string, nowMs: number, lastStep: number): number | null {
  if (!/^\d{6}$/.test(code)) return null
  const now = stepAt(nowMs)
  for (let step = Math.max(0, now - driftSteps); step <= now + driftSteps; step++)
    if (step > lastStep && timingSafeEqual(Buffer.from(totp(secret, step)), Buffer.from(code))) return step
  return null
}

const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'

/** Without padding: https://www.rfc-editor.org/rfc/rfc4648#section-6 */
export function base32(bytes: Uint8Array): string {
  let bits = 0
  let held = 0
  let text = ''
  for (const byte of bytes) {
    held = (held << 8) | byte
    bits += 8
    while (bits >= 5) text += letters[(held >>> (bits -= 5)) & 31]
    held &= (1 << bits) - 1
  }
  return bits === 0 ? text : text + letters[(held << (5 - bits)) & 31]
}

/** What authenticators read: https://github.com/google/google-authenticator/wiki/Key-Uri-Format */
export const totpUri = (secret: Uint8Array, user: string, site: string): string =>
  `otpauth://totp/${encodeURIComponent(`Anchorhold:${user}@${site}`)}?${new URLSearchParams({ secret: base32(secret), issuer: 'Anchorhold' }).toString()}`
