import { NewPasskey, ShownPasskey } from '@anchorhold/protocol/api/login'
import { Failure } from '@anchorhold/protocol/failures'
import { daemon } from '../daemon.ts'

/** Passkeys belong to a name, and browsers give them to secure pages alone. */
export const canPasskey = (): boolean =>
  typeof PublicKeyCredential === 'function' &&
  'parseRequestOptionsFromJSON' in PublicKeyCredential &&
  !/^[\d.]+$|^\[/.test(location.hostname)

/** Has whoever sits here show a passkey. */
export async function showPasskey() {
  const { ticket, options } = await daemon.askPasskey()
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options)
  return { ticket, passkey: ShownPasskey.parse(await given(navigator.credentials.get({ publicKey }))) }
}

export async function makePasskey() {
  const { ticket, options } = await daemon.offerPasskey()
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options as never)
  return { ticket, passkey: NewPasskey.parse(await given(navigator.credentials.create({ publicKey }))) }
}

async function given(asked: Promise<Credential | null>): Promise<unknown> {
  try {
    const credential = await asked
    if (credential instanceof PublicKeyCredential) return credential.toJSON()
  } catch (error) {
    if (error instanceof DOMException && error.name === 'InvalidStateError')
      throw new Failure('conflict', 'This device already has a passkey here')
    if (!(error instanceof DOMException)) throw error
  }
  throw new Failure('bad_request', 'No passkey was given: it was cancelled, timed out, or this device has none for this daemon')
}
