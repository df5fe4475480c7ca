import { createHash } from 'node:crypto'

/** Java reads no PEM, and a cell need not have the program that would make what it does read. */
export const javaTrustPassword = 'changeit'

/** Certificates (PEM) as a key store of the kind JKS, which every Java can read: a header, an entry for each certificate, and a digest
 *  of all with a password that is no secret: Java wants one to check that the file is whole. The format is that of
 *  `sun.security.provider.JavaKeyStore`. */
export function javaTrust(pem: string, madeAtMs: number): Buffer {
  const certificates = [...pem.matchAll(/-----BEGIN CERTIFICATE-----([^-]+)-----END CERTIFICATE-----/g)]
  const made = Buffer.alloc(8)
  made.writeBigInt64BE(BigInt(madeAtMs))
  // A session waits for this: there are some hundred and fifty of them, and few pieces are made of each.
  const pieces = [numbers(0xfeed_feed, 2, certificates.length)]
  for (const [at, [, base64 = '']] of certificates.entries()) {
    const certificate = Buffer.from(base64, 'base64')
    pieces.push(numbers(trustedCertificate), text(`authority-${at}`), made, type, numbers(certificate.length), certificate)
  }
  const body = Buffer.concat(pieces)
  const password = Buffer.from(javaTrustPassword, 'utf16le').swap16()
  return Buffer.concat([body, createHash('sha1').update(password).update('Mighty Aphrodite').update(body).digest()])
}

const trustedCertificate = 2

function numbers(...values: readonly number[]): Buffer {
  const bytes = Buffer.allocUnsafe(4 * values.length)
  for (const [at, value] of values.entries()) bytes.writeUInt32BE(value, 4 * at)
  return bytes
}

function text(value: string): Buffer {
  const bytes = Buffer.from(`\0\0${value}`)
  bytes.writeUInt16BE(bytes.length - 2)
  return bytes
}
const type = text('X.509')
