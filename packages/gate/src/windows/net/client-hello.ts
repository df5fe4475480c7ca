import { createHash } from 'node:crypto'

/** What the first message of a TLS client says of where it wants to go. */
export type ClientHello = {
  /** As it was sent; null when the client names no server. */
  readonly serverName: string | null
  /** How many bytes it takes, records and all. */
  readonly length: number
  /** The name that counts is encrypted (RFC 9849), so that nobody can tell which it is. */
  readonly isHidden: boolean
}

/** More than any client sends, with the largest keys that there are. */
export const helloBytesMax = 32 * 1024

const types = { record: 22, clientHello: 1, serverName: 0, hostName: 0 } as const
/** Encrypted ClientHello, and the draft before it. */
const hidden: readonly number[] = [0xfe0d, 0xffce]
const recordBytesMax = 16 * 1024
/** Clients use one, and a few when they want to be hard to read. */
const recordsMax = 16

/** Reads a ClientHello that may lie in several records (RFC 8446, 4.1.2): `more` when the bytes may be the beginning of one,
 *  null when they are none. Strict: what one parser may take for another name than the next is none. */
export function readClientHello(bytes: Buffer): ClientHello | 'more' | null {
  const parts: Buffer[] = []
  let gathered = 0
  let at = 0
  for (;;) {
    const left = bytes.subarray(at)
    if ((left.length > 0 && left[0] !== types.record) || (left.length > 1 && left[1] !== 3)) return null
    if (left.length < 5) return 'more'
    const length = left.readUInt16BE(3)
    if (length === 0 || length > recordBytesMax || parts.length === recordsMax) return null
    const part = left.subarray(5, 5 + length)
    parts.push(part)
    gathered += part.length
    const message = parts.length === 1 ? part : Buffer.concat(parts)
    if (message.length > 0 && message[0] !== types.clientHello) return null
    if (message.length >= 4) {
      const whole = 4 + message.readUIntBE(1, 3)
      // A client sends nothing else along with it.
      if (whole > helloBytesMax || gathered > whole) return null
      if (gathered === whole) return part.length === length ? parseHello(message.subarray(4), at + 5 + length) : null
    }
    if (part.length < length) return bytes.length > helloBytesMax ? null : 'more'
    at += 5 + length
  }
}

function parseHello(body: Buffer, length: number): ClientHello | null {
  let rest = body
  /** What stands behind its length of so many bytes; null when it is not all there. */
  const take = (lengthBytes: 1 | 2): Buffer | null => {
    if (rest.length < lengthBytes) return null
    const length = rest.readUIntBE(0, lengthBytes)
    const taken = rest.subarray(lengthBytes, lengthBytes + length)
    rest = rest.subarray(lengthBytes + length)
    return taken.length === length ? taken : null
  }
  // The version and the random number.
  if (rest.length < 34 || rest[0] !== 3) return null
  rest = rest.subarray(34)
  const [session, ciphers, compressions] = [take(1), take(2), take(1)]
  if (session === null || ciphers === null || compressions === null) return null
  if (session.length > 32 || ciphers.length < 2 || compressions.length < 1) return null
  if (rest.length === 0) return { serverName: null, length, isHidden: false }
  const extensions = take(2)
  if (extensions === null || rest.length > 0) return null
  rest = extensions
  const seen = new Set<number>()
  let serverName: string | null = null
  while (rest.length > 0) {
    if (rest.length < 4) return null
    const type = rest.readUInt16BE(0)
    rest = rest.subarray(2)
    const data = take(2)
    if (data === null || seen.has(type)) return null
    seen.add(type)
    if (type !== types.serverName) continue
    serverName = hostNameIn(data)
    if (serverName === null) return null
  }
  return { serverName, length, isHidden: hidden.some((type) => seen.has(type)) }
}

/** The one name in a list of server names (RFC 6066, 3). */
function hostNameIn(data: Buffer): string | null {
  if (data.length < 5 || data.readUInt16BE(0) !== data.length - 2 || data[2] !== types.hostName) return null
  const name = data.subarray(5)
  return data.readUInt16BE(3) === name.length && name.length > 0 ? name.toString('latin1') : null
}

/** The random number of a server that wants another first message (RFC 8446, 4.1.3). */
const retryRandom = createHash('sha256').update('HelloRetryRequest').digest()

/** Whether a server's first bytes ask the client to say its first message once more, in which it could name another server. */
export function asksAgain(bytes: Buffer): boolean | 'more' {
  // A record, a ServerHello in it, its version, and then the number.
  const start = [types.record, 3, null, null, null, 2, null, null, null, 3, 3]
  if (start.some((value, at) => value !== null && at < bytes.length && bytes[at] !== value)) return false
  if (bytes.length < start.length + retryRandom.length) return 'more'
  return bytes.subarray(start.length, start.length + retryRandom.length).equals(retryRandom)
}

/** The first message said again: before it there may be what the server does not look at. */
export function readHelloAgain(bytes: Buffer): ClientHello | 'more' | null {
  let at = 0
  while (at < bytes.length && ignored.includes(bytes[at]!)) {
    if (bytes.length < at + 5) return 'more'
    at += 5 + bytes.readUInt16BE(at + 3)
  }
  if (at >= bytes.length) return bytes.length > helloBytesMax ? null : 'more'
  return readClientHello(bytes.subarray(at))
}
/** Change of cipher, and data that was sent too early. */
const ignored: readonly number[] = [20, 23]
