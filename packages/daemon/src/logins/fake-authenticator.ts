import type { NewPasskey, ShownPasskey } from '@anchorhold/protocol/api/login'
import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto'

/** An authenticator in memory with one passkey, which says whatever a test has it say. */
export interface FakeAuthenticator {
  readonly id: string
  counter: number
  create(challenge: string, origin: string): NewPasskey
  get(challenge: string, origin: string, more?: { readonly site?: string; readonly verified?: boolean }): ShownPasskey
}

const base64url = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64url')
const sha256 = (bytes: Uint8Array | string) => createHash('sha256').update(bytes).digest()

export function fakeAuthenticator(): FakeAuthenticator {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const { x = '', y = '' } = publicKey.export({ format: 'jwk' })
  const rawId = randomBytes(16)
  const id = base64url(rawId)
  const clientData = (type: string, challenge: string, origin: string) =>
    Buffer.from(JSON.stringify({ type, challenge, origin, crossOrigin: false }))
  // https://www.w3.org/TR/webauthn-3/#sctn-authenticator-data
  const authenticatorData = (site: string, flags: number, attested: Uint8Array = new Uint8Array()) => {
    const counter = Buffer.alloc(4)
    counter.writeUInt32BE(it.counter)
    return Buffer.concat([sha256(site), Buffer.from([flags]), counter, attested])
  }
  const it: FakeAuthenticator = {
    id,
    counter: 1,
    create(challenge, origin) {
      // A COSE key for ES256: https://www.rfc-editor.org/rfc/rfc9052#section-7
      const key = Buffer.concat([
        Buffer.from([0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21, 0x58, 32]),
        Buffer.from(x, 'base64url'),
        Buffer.from([0x22, 0x58, 32]),
        Buffer.from(y, 'base64url'),
      ])
      const attested = Buffer.concat([Buffer.alloc(16), Buffer.from([0, rawId.length]), rawId, key])
      const data = authenticatorData(new URL(origin).hostname, 0x45, attested)
      const text = (word: string) => Buffer.concat([Buffer.from([0x60 + word.length]), Buffer.from(word)])
      const attestationObject = Buffer.concat([
        Buffer.from([0xa3]),
        ...[text('fmt'), text('none'), text('attStmt'), Buffer.from([0xa0]), text('authData')],
        ...[Buffer.from([0x58, data.length]), data],
      ])
      return {
        ...{ id, rawId: id, type: 'public-key' },
        response: {
          clientDataJSON: base64url(clientData('webauthn.create', challenge, origin)),
          attestationObject: base64url(attestationObject),
        },
      }
    },
    get(challenge, origin, { site = new URL(origin).hostname, verified = true } = {}) {
      const client = clientData('webauthn.get', challenge, origin)
      const data = authenticatorData(site, verified ? 0x05 : 0x01)
      return {
        ...{ id, rawId: id, type: 'public-key' },
        response: {
          clientDataJSON: base64url(client),
          authenticatorData: base64url(data),
          signature: base64url(sign('sha256', Buffer.concat([data, sha256(client)]), privateKey)),
        },
      }
    },
  }
  return it
}
