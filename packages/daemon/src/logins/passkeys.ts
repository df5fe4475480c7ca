import type { NewPasskey, ShownPasskey } from '@anchorhold/protocol/api/login'
import { Failure } from '@anchorhold/protocol/failures'

/** A passkey as it is kept. */
export type KnownPasskey = {
  readonly id: string
  readonly publicKey: Uint8Array
  readonly counter: number
  readonly site: string
}

/** The page that asks: one of ours, as the door has checked. */
export function pageOf(origin: string | undefined): string {
  if (origin === undefined) throw new Failure('bad_request', 'Passkeys are for browsers: no Origin came with the request')
  return origin
}

/** The host name that passkeys of an origin are good for. */
export function siteOf(origin: string): string {
  const { hostname } = new URL(origin)
  // A passkey belongs to a name; an address is none: https://www.w3.org/TR/webauthn-3/#relying-party-identifier
  if (/^[\d.]+$|^\[/.test(hostname))
    throw new Failure('bad_request', `Cannot use passkeys under "${hostname}": they belong to a name, and this is an address`, {
      hint: 'Open the page as http://localhost:PORT, or under its public URL',
    })
  return hostname
}

/** Loaded when the first passkey is used: taking certificates and CBOR apart is much code, which a start need not wait for. */
const library = () => import('@simplewebauthn/server')
const timeoutMs = 5 * 60_000

type Options = { readonly challenge: string } & Record<string, unknown>

/** What a browser is to make a passkey from: kept on the device and found without a name, and the device checks who holds it. */
export async function offer(
  origin: string,
  user: { readonly id: string; readonly name: string },
  known: readonly KnownPasskey[],
): Promise<Options> {
  const { generateRegistrationOptions } = await library()
  const site = siteOf(origin)
  const options = await generateRegistrationOptions({
    rpName: 'Anchorhold',
    rpID: site,
    userName: user.name,
    userID: new TextEncoder().encode(user.id),
    timeout: timeoutMs,
    attestationType: 'none',
    excludeCredentials: known.filter((one) => one.site === site).map(({ id }) => ({ id })),
    authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
  })
  return { ...options }
}

export async function readNew(passkey: NewPasskey, challenge: string, origin: string): Promise<KnownPasskey> {
  const { verifyRegistrationResponse } = await library()
  const { verified, registrationInfo } = await orRefuse('add the passkey', () =>
    verifyRegistrationResponse({
      response: { ...passkey, clientExtensionResults: {} } as Parameters<typeof verifyRegistrationResponse>[0]['response'],
      expectedChallenge: challenge,
      expectedOrigin: origin,
      expectedRPID: siteOf(origin),
      requireUserVerification: true,
    }),
  )
  if (!verified || registrationInfo === undefined) throw refused('add the passkey', 'it is not what was asked for')
  const { id, publicKey, counter } = registrationInfo.credential
  return { id, publicKey, counter, site: siteOf(origin) }
}

/** What a browser is to sign: with whichever passkey of this site its owner chooses. */
export async function ask(origin: string): Promise<Options> {
  const { generateAuthenticationOptions } = await library()
  const options = await generateAuthenticationOptions({ rpID: siteOf(origin), timeout: timeoutMs, userVerification: 'required' })
  return { ...options }
}

/** The count that the passkey is at now; throws when it did not sign this challenge, for this site, after the last count. */
export async function check(shown: ShownPasskey, known: KnownPasskey, challenge: string, origin: string): Promise<number> {
  const { verifyAuthenticationResponse } = await library()
  const { verified, authenticationInfo } = await orRefuse('take the passkey', () =>
    verifyAuthenticationResponse({
      response: { ...shown, clientExtensionResults: {} } as Parameters<typeof verifyAuthenticationResponse>[0]['response'],
      expectedChallenge: challenge,
      expectedOrigin: origin,
      expectedRPID: known.site,
      credential: { id: known.id, publicKey: Uint8Array.from(known.publicKey), counter: known.counter },
      requireUserVerification: true,
    }),
  )
  if (!verified) throw refused('take the passkey', 'its signature is wrong')
  return authenticationInfo.newCounter
}

async function orRefuse<T>(deed: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw refused(deed, error instanceof Error ? error.message : String(error))
  }
}

// The library's words hold what the browser sent; whoever sent it may read it again, and it is shown as text.
const refused = (deed: string, why: string) => new Failure('unauthenticated', `Cannot ${deed}: ${why.slice(0, 300)}`)
