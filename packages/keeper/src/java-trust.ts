import { createHash } from 'node:crypto'

/** Java reads no PEM, and a cell need not have the program that would make what it does read. */
export const javaTrustPassword = 'changeit'

/** Certificates (PEM) as a key store of the kind JKS, which every Java can read: a header, an entry for each certificate, and a digest
 *  of all with a password that is no secret: Java wants one to check that the file is whole. The format is that of
 *  `sun.security.provider.JavaKeyStore`. */
export function javaTrust(pem: string, madeAtMs: number): Buffer {
  const certificates = [...pem.matchAll(/-----BEGIN CERTIFICATE-----([^-]+)-----END CERTIFICATE-----/g)].map(([, base64 = '']) =>
    Buffer.from(base64, 'base64'),
  )
  const made = Buffer.alloc(8)
  made.writeBigInt64BE(BigInt(madeAtMs))
  const entries = certificates.map((certificate, at) =>
    Buffer.concat([
      number(trustedCertificate),
      text(`authority-${at}`),
      made,
      text('X.509'),
      number(certificate.length),
      certificate,
    ]),
  )
  const body = Buffer.concat([number(0xfeed_feed), number(2), number(entries.length), ...entries])
  const password = Buffer.from(javaTrustPassword, 'utf16le').swap16()
  return Buffer.concat([body, createHash('sha1').update(password).update('Mighty Aphrodite').update(body).digest()])
}

const trustedCertificate = 2

function number(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

function text(value: string): Buffer {
  const length = Buffer.alloc(2)
  length.writeUInt16BE(Buffer.byteLength(value))
  return Buffer.concat([length, Buffer.from(value)])
}
