import { decodeOnce } from '../policy/meaning.ts'
import { formatAddress, parseAddress } from './addresses.ts'

/** Where a client wants to go, in the one form that everything after this compares. */
export type Target = {
  /** A name in lower case, or an address as RFC 5952 writes it, without brackets. */
  readonly host: string
  readonly port: number
  readonly isAddress: boolean
}

/** What a client named is no place that everybody reads alike, and why, in words. */
export type Misnamed = { readonly misnamed: string }

const nameCharsMax = 253
/** As long as a path may be in an action that is judged. */
const pathCharsMax = 8192

/** The authority of a CONNECT, which must say its port. */
export function connectTarget(authority: string): Target | Misnamed {
  const split = splitPort(authority)
  if ('misnamed' in split) return split
  if (split.port === null) return misnamed('a CONNECT must name a port')
  return targetOf(split.host, split.port)
}

/** The Host header of a request, where the port that goes without saying may be left out. */
export function hostTarget(host: string, portUnsaid: number): Target | Misnamed {
  const split = splitPort(host)
  if ('misnamed' in split) return split
  return targetOf(split.host, split.port ?? portUnsaid)
}

/** The absolute form of a request's target. Only plain HTTP is asked for in this way: for anything else a client uses CONNECT. */
export function absoluteTarget(url: string): { readonly target: Target; readonly path: string } | Misnamed {
  const found = /^http:\/\/([^/?]*)(.*)$/is.exec(url)
  if (found === null) return misnamed('only http:// can be asked for in this way')
  const target = hostTarget(found[1]!, 80)
  if ('misnamed' in target) return target
  const rest = found[2]!
  const path = originPath(rest.startsWith('/') ? rest : `/${rest}`)
  return typeof path === 'string' ? { target, path } : path
}

/** A whole URL, as a person writes it: what follows a `#` stays with whoever reads the page, and what must be written in percent form
 *  is. */
export function urlTarget(
  url: string,
): { readonly target: Target; readonly path: string; readonly isSecure: boolean } | Misnamed {
  const found = /^(https?):\/\/([^/?#]*)([^#]*)/is.exec(url)
  if (found === null) return misnamed('only http:// and https:// can be asked for')
  const isSecure = found[1]!.toLowerCase() === 'https'
  const target = hostTarget(found[2]!, isSecure ? 443 : 80)
  if ('misnamed' in target) return target
  const rest = found[3]!.toWellFormed().replaceAll(/[^\x21-\x7e]/gu, encodeURIComponent)
  const path = originPath(rest.startsWith('/') ? rest : `/${rest}`)
  return typeof path === 'string' ? { target, path, isSecure } : path
}

/** Path and query of a request in origin form: kept as they are, so that what is judged is what is sent. */
export function originPath(path: string): string | Misnamed {
  if (!path.startsWith('/')) return misnamed('the path does not begin with a slash')
  if (path.length > pathCharsMax) return misnamed(`the path is longer than ${pathCharsMax} characters`)
  if (!/^[\x21-\x7e]*$/.test(path) || /[\\#]/.test(path))
    return misnamed('the path has a character that must be written in percent form')
  if (hasDots(path.replace(/\?.*/s, '')))
    return misnamed('the path has a part of nothing but dots, which servers read in more than one way: write it without')
  return path
}

/** Whether a name in a path, as some server may read it, is `.` or `..`. Where such a path leads depends on how often it is decoded and on
 *  what ends a name (`..;` is `..` to Java's servers), so no rule could speak of it. */
function hasDots(path: string): boolean {
  for (let text = path, round = 0; round <= 2; round++, text = decodeOnce(text))
    if (text.split(/[/\\]/).some((name) => /^\.\.?(?:[;?#\0]|$)/.test(name))) return true
  return false
}

/** The name that a TLS client asks for. An address cannot be one (RFC 6066). */
export function serverName(name: string): string | Misnamed {
  const target = targetOf(name, 443)
  if ('misnamed' in target) return target
  return target.isAddress ? misnamed('an address is no server name') : target.host
}

export const isSameTarget = (a: Target, b: Target): boolean => a.host === b.host && a.port === b.port

/** As it is written in an authority. */
export const authorityOf = ({ host, port }: Target): string => `${host.includes(':') ? `[${host}]` : host}:${port}`

const misnamed = (why: string): Misnamed => ({ misnamed: why })

type Split = { readonly host: string; readonly port: number | null }

function splitPort(authority: string): Split | Misnamed {
  const found = /^(\[[^\]]*\]|[^:]*)(?::(.*))?$/s.exec(authority)
  if (found === null) return misnamed('an address with colons stands in brackets')
  const [, host = '', digits] = found
  if (digits === undefined) return { host, port: null }
  const port = /^[1-9]\d{0,4}$/.test(digits) ? Number(digits) : 0
  return port > 0 && port <= 65_535 ? { host, port } : misnamed('the port is not a number from 1 to 65535')
}

function targetOf(host: string, port: number): Target | Misnamed {
  if (host.startsWith('[')) {
    const address = parseAddress(host.slice(1, -1))
    if (address?.length !== 16) return misnamed('what stands in brackets is no IPv6 address without a zone')
    return { host: formatAddress(address), port, isAddress: true }
  }
  const address = parseAddress(host)
  if (address !== null && address.length === 4) return { host: formatAddress(address), port, isAddress: true }
  const why = notAName(host)
  return why === null ? { host: host.toLowerCase(), port, isAddress: false } : misnamed(why)
}

/** Why it is not a name of letters, digits and hyphens (RFC 952, 1123); null when it is one. */
function notAName(host: string): string | null {
  if (host === '') return 'there is no host'
  if (host.includes('@')) return 'a user and a password do not belong in it'
  if (host.includes('%')) return 'percent forms do not belong in a host'
  if (!/^[\x21-\x7e]*$/.test(host)) return 'the host has a character that is not visible ASCII: write its xn-- form'
  if (host.length > nameCharsMax) return `the host is longer than ${nameCharsMax} characters`
  if (host.endsWith('.')) return 'the host ends in a dot'
  const labels = host.split('.')
  if (!labels.every((label) => /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/i.test(label)))
    return 'the host is not a name of letters, digits and hyphens'
  // What ends in a number is an address to some, in decimal, octal or hexadecimal (https://url.spec.whatwg.org/#ends-in-a-number-checker).
  if (/^(\d+|0x[0-9a-f]*)$/i.test(labels.at(-1)!)) return 'the host is a number, but no address in dotted decimal'
  if (/^\d+\.\d+\.\d+\.\d/.test(host)) return 'the host begins as an address, and is none'
  return null
}
