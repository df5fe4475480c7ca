import { createConnection, type Socket } from 'node:net'
import { join } from './join.ts'

/** SOCKS5 (RFC 1928) for programs that know no other proxy: a CONNECT of theirs becomes one of HTTP's to the net window, which judges it.
 *  Nothing is decided in here: whoever is in the cell could say the same to the window without it. */

/** What a request is refused with (RFC 1928, 6). */
const replies = { done: 0, failed: 1, notAllowed: 2, unreachable: 4, noSuchCommand: 7, noSuchAddress: 8 } as const
const version = 5
const noLogin = 0
const connect = 1
const kinds = { ipv4: 1, name: 3, ipv6: 4 } as const
/** A greeting and a request at their longest. */
const beginningBytesMax = 2 + 255 + 4 + 256 + 2
const answerBytesMax = 16 * 1024
const beginningMs = 30_000
const lingerMs = 2000

export type Greeting = { readonly length: number; readonly isOpen: boolean }

/** How a client wants to log in; null when these bytes are no greeting. */
export function readGreeting(bytes: Buffer): Greeting | 'more' | null {
  if (bytes.length > 0 && bytes[0] !== version) return null
  if (bytes.length < 2) return 'more'
  const length = 2 + bytes[1]!
  return bytes.length < length ? 'more' : { length, isOpen: bytes.subarray(2, length).includes(noLogin) }
}

export type Wanted = { readonly length: number; readonly authority: string } | { readonly refusal: number }

/** Where a client wants to go, as an authority; or why that is nothing that can be asked for. */
export function readWanted(bytes: Buffer): Wanted | 'more' {
  if (bytes.length < 5) return bytes.length > 0 && bytes[0] !== version ? { refusal: replies.failed } : 'more'
  const [said, command, reserved, kind, first] = bytes as unknown as [number, number, number, number, number]
  if (said !== version || reserved !== 0) return { refusal: replies.failed }
  // Neither BIND nor UDP.
  if (command !== connect) return { refusal: replies.noSuchCommand }
  const isName = kind === kinds.name
  const size = isName ? first : kind === kinds.ipv4 ? 4 : kind === kinds.ipv6 ? 16 : null
  if (size === null || size === 0) return { refusal: replies.noSuchAddress }
  const start = isName ? 5 : 4
  const length = start + size + 2
  if (bytes.length < length) return 'more'
  const host = hostOf(bytes.subarray(start, start + size), kind)
  const port = bytes.readUInt16BE(length - 2)
  return host === null || port === 0 ? { refusal: replies.noSuchAddress } : { length, authority: `${host}:${port}` }
}

function hostOf(bytes: Buffer, kind: number): string | null {
  if (kind === kinds.ipv4) return [...bytes].join('.')
  if (kind === kinds.ipv6) return `[${Array.from({ length: 8 }, (_, at) => bytes.readUInt16BE(at * 2).toString(16)).join(':')}]`
  const name = bytes.toString('latin1')
  // What could end the line that it is written into is no name.
  return /^[a-z0-9.-]+$/i.test(name) ? name : null
}

/** The status of an answer to a CONNECT, and how long it is; null when it is none. */
export function readAnswer(bytes: Buffer): { readonly status: number; readonly length: number } | 'more' | null {
  const end = bytes.indexOf('\r\n\r\n')
  if (end === -1) return bytes.length > answerBytesMax ? null : 'more'
  const status = /^HTTP\/1\.1 (\d{3}) /.exec(bytes.subarray(0, 64).toString('latin1'))?.[1]
  return status === undefined ? null : { status: Number(status), length: end + 4 }
}

/** Serves one client, whose connections go to the window at this path. */
export function serveSocks(client: Socket, socketPath: string): void {
  let said = Buffer.alloc(0)
  let isGreeted = false
  const timer = setTimeout(() => client.destroy(), beginningMs)
  client.on('error', () => {}).once('close', () => clearTimeout(timer))
  /** What it still sends is let go, so that it reads this before its connection is gone. */
  const endWith = (words: Buffer) => {
    client.off('data', hear).resume().end(words)
    setTimeout(() => client.destroy(), lingerMs).unref()
  }
  const end = (reply: number) => endWith(replyOf(reply))

  function hear(chunk: Buffer): void {
    said = Buffer.concat([said, chunk])
    if (!isGreeted) {
      const greeting = readGreeting(said)
      if (greeting === null) return void client.destroy()
      if (greeting === 'more') return
      if (!greeting.isOpen) return endWith(Buffer.from([version, 0xff]))
      isGreeted = true
      said = said.subarray(greeting.length)
      client.write(Buffer.from([version, noLogin]))
    }
    const wanted = readWanted(said)
    if (wanted === 'more') return said.length > beginningBytesMax ? void client.destroy() : undefined
    if ('refusal' in wanted) return end(wanted.refusal)
    client.off('data', hear).pause()
    clearTimeout(timer)
    lead(wanted.authority, said.subarray(wanted.length))
  }

  function lead(authority: string, early: Buffer): void {
    const window = createConnection({ path: socketPath, allowHalfOpen: true })
    let answered = Buffer.alloc(0)
    const fail = () => end(replies.failed)
    client.once('close', () => window.destroy())
    window.once('error', fail).once('end', fail)
    window.on('data', function hearWindow(chunk: Buffer) {
      answered = Buffer.concat([answered, chunk])
      const answer = readAnswer(answered)
      if (answer === 'more') return
      window.off('data', hearWindow).off('error', fail).off('end', fail).pause()
      if (answer?.status !== 200) {
        window.on('error', () => {}).destroy()
        return end(answer?.status === 403 ? replies.notAllowed : answer?.status === 502 ? replies.unreachable : replies.failed)
      }
      const rest = answered.subarray(answer.length)
      if (rest.length > 0) window.unshift(rest)
      if (early.length > 0) client.unshift(early)
      client.write(replyOf(replies.done))
      join(client, window)
      join(window, client)
    })
    window.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`)
  }

  client.on('data', hear)
}

/** With an address of nobody's, because what was dialled is nothing that a cell is told. */
const replyOf = (reply: number) => Buffer.from([version, reply, 0, kinds.ipv4, 0, 0, 0, 0, 0, 0])
