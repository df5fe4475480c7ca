// The library finds its own parts by what this keeps.
import 'reflect-metadata'
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  type Extension,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509CertificateGenerator,
} from '@peculiar/x509'
import { randomBytes } from 'node:crypto'

/** The one file that knows the X.509 library: it writes certificates, and reads none. It takes a while to load, so who needs it
 *  imports it when it is needed. */

export type Validity = { readonly notBefore: Date; readonly notAfter: Date }

const signing = { name: 'ECDSA', hash: 'SHA-256' } as const

/** The certificate of an authority, signed by itself. */
export async function authorityCertificate(name: string, keys: CryptoKeyPair, validity: Validity): Promise<string> {
  const extensions: Extension[] = [
    new BasicConstraintsExtension(true, 0, true),
    new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
    await SubjectKeyIdentifierExtension.create(keys.publicKey),
  ]
  const made = await X509CertificateGenerator.create({
    serialNumber: serial(),
    subject: named(name),
    issuer: named(name),
    ...validity,
    signingAlgorithm: signing,
    publicKey: keys.publicKey,
    signingKey: keys.privateKey,
    extensions,
  })
  return `${made.toString('pem')}\n`
}

export type Issuer = { readonly name: string; readonly keys: CryptoKeyPair }

/** The certificate of a server at a host, a name or an address. */
export async function hostCertificate(
  issuer: Issuer,
  host: { readonly host: string; readonly isAddress: boolean },
  publicKey: CryptoKey,
  validity: Validity,
): Promise<string> {
  const extensions: Extension[] = [
    new BasicConstraintsExtension(false, undefined, true),
    new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
    new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth]),
    new SubjectAlternativeNameExtension([{ type: host.isAddress ? 'ip' : 'dns', value: host.host }]),
    await AuthorityKeyIdentifierExtension.create(issuer.keys.publicKey),
    await SubjectKeyIdentifierExtension.create(publicKey),
  ]
  const made = await X509CertificateGenerator.create({
    serialNumber: serial(),
    subject: named('Anchorhold'),
    issuer: named(issuer.name),
    ...validity,
    signingAlgorithm: signing,
    publicKey,
    signingKey: issuer.keys.privateKey,
    extensions,
  })
  return `${made.toString('pem')}\n`
}

const named = (name: string) => [{ CN: [name] }]

/** A positive number of at most twenty bytes (RFC 5280, 4.1.2.2). */
function serial(): string {
  const bytes = randomBytes(16)
  bytes[0] = (bytes[0]! & 0x7f) | 0x40
  return bytes.toString('hex')
}
