import { addressKind, parseAddress } from '@anchorhold/core/net/addresses'
import { Failure } from '@anchorhold/protocol/failures'
import { lookup } from 'node:dns'
import type { LookupFunction } from 'node:net'

/** The address of a push service, which a browser named: whoever holds a login could name anything. Invariant: only HTTPS, and only
 *  in the public network or where `ownHosts` says, which is looked at again at every connection (see `guardedLookup`). */
export function pushEndpoint(text: string, ownHosts: ReadonlySet<string>): URL {
  const refuse = (why: string) =>
    new Failure('bad_request', `Cannot use the push service: ${why}`, {
      hint: 'A push service of your own network can be named by push_hosts in config.yaml',
    })
  if (!URL.canParse(text)) throw refuse('its address is malformed')
  const url = new URL(text)
  if (url.protocol !== 'https:' || url.username !== '' || url.password !== '') throw refuse('its address is no plain HTTPS')
  if (isOwn(url, ownHosts)) return url
  const literal = parseAddress(url.hostname.replace(/^\[|\]$/g, ''))
  if (literal === null ? /^(.+\.)?(localhost|local|internal)\.?$/.test(url.hostname) : addressKind(literal) !== 'public')
    throw refuse('it is not in the public network')
  return url
}

export const isOwn = ({ hostname, port }: URL, ownHosts: ReadonlySet<string>): boolean =>
  ownHosts.has(`${hostname}:${port === '' ? '443' : port}`)

/** Looks a name up, and gives nothing unless every address that it has is public. */
export const guardedLookup: LookupFunction = (hostname, options, callback) => {
  lookup(hostname, { ...options, all: true }, (error, addresses) => {
    if (error !== null) return callback(error, '', 0)
    const isPublic = ({ address }: { address: string }) => {
      const parsed = parseAddress(address)
      return parsed !== null && addressKind(parsed) === 'public'
    }
    const [first] = addresses
    if (first === undefined || !addresses.every(isPublic))
      return callback(new Error(`"${hostname}" is not in the public network`), '', 0)
    if (options.all === true) callback(null, addresses)
    else callback(null, first.address, first.family)
  })
}
