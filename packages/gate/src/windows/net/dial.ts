import type { Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import { type Address, addressKind, formatAddress, parseAddress } from '@anchorhold/core/net/addresses'
import type { Target } from '@anchorhold/core/net/target'
import { printable } from '@anchorhold/core/printable'
import { pourable } from './pour.ts'
import { type Resolve, systemResolve } from './resolve.ts'

/** Connects to a target that may be reached.
 *  Invariant: a name is resolved once, every address that it has is judged, and an address that was judged is what is dialled. */
export type Dialler = {
  /** Why nothing is ever dialled for this target, as far as its name tells; null when that takes looking it up. */
  refuses(target: Target, options: DialOptions): string | null
  dial(target: Target, options: DialOptions, signal: AbortSignal): Promise<Dialled>
}

export type DialOptions = {
  /** A rule opens this one place of the owner's own network. */
  readonly ownNetwork: boolean
}

/** `blocked` is what no cell is led to; `failed` what could not be reached. */
export type Dialled = { readonly socket: Socket } | { readonly blocked: string } | { readonly failed: string }

export type DialParts = {
  readonly resolve?: Resolve
  /** Connects to an address that was judged, and looks nothing up. */
  readonly connect?: (address: string, port: number) => Socket
  /** The machine's own, under which it is reached past whatever guards it from outside. */
  readonly machineAddresses?: () => readonly string[]
}

/** Of more answers than these the rest are judged, and not tried. */
const triedMax = 6
const nextAfterMs = 250
const dialMs = 15_000
const machineMs = 1000

export function dialler(parts: DialParts = {}): Dialler {
  const { resolve = systemResolve(), connect = connectTo, machineAddresses = addressesOfThisMachine() } = parts

  function refuses(target: Target, options: DialOptions): string | null {
    const isOwn = target.isAddress
      ? !mayDial(parseAddress(target.host)!, new Set(machineAddresses()), options)
      : !options.ownNetwork && /^(.+\.)?localhost$/.test(target.host)
    return isOwn ? forbidden(target) : null
  }

  async function dial(target: Target, options: DialOptions, given: AbortSignal): Promise<Dialled> {
    const late = AbortSignal.timeout(dialMs)
    const signal = AbortSignal.any([given, late])
    const failed = (error: unknown): Dialled => {
      const why = late.aborted ? `nobody answered within ${dialMs / 1000} s` : wordsOf(error)
      return { failed: `Cannot reach "${target.host}" on port ${target.port}: ${why}` }
    }
    let found: readonly string[]
    try {
      found = target.isAddress ? [target.host] : await orAborted(resolve(target.host, signal), signal)
    } catch (error) {
      return failed(error)
    }
    const machine = new Set(machineAddresses())
    const judged: Address[] = []
    for (const text of found) {
      const address = parseAddress(text)
      if (address === null || !mayDial(address, machine, options)) return { blocked: forbidden(target) }
      judged.push(address)
    }
    if (judged.length === 0) return failed(new Error('it has no address'))
    try {
      return { socket: await firstOf(inTurn(judged).slice(0, triedMax), (text) => connect(text, target.port), signal) }
    } catch (error) {
      return failed(error)
    }
  }

  return { refuses, dial }
}

export const forbidden = ({ host }: Target): string =>
  `"${host}" leads to an address that no cell is led to: this machine, a private network or a reserved one`

function mayDial(address: Address, machine: ReadonlySet<string>, { ownNetwork }: DialOptions): boolean {
  const kind = addressKind(address)
  if (kind === 'never') return false
  return ownNetwork || (kind === 'public' && !machine.has(formatAddress(address)))
}

/** One of each family by turns, as long as there are both. */
function inTurn(addresses: readonly Address[]): string[] {
  const [four, six] = [4, 16].map((length) => addresses.filter((one) => one.length === length).map(formatAddress))
  const turns = Array.from({ length: addresses.length }, (_, at) => [four![at], six![at]])
  return turns.flat().filter((one) => one !== undefined)
}

/** The first that stands: each is given a moment before the next is tried beside it (RFC 8305). */
function firstOf(addresses: readonly string[], connect: (address: string) => Socket, signal: AbortSignal): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>()
  const open = new Set<Socket>()
  let next = 0
  let timer: NodeJS.Timeout | undefined
  const stop = (won: Socket | null) => {
    clearTimeout(timer)
    next = addresses.length
    signal.removeEventListener('abort', abort)
    for (const socket of open) if (socket !== won) socket.destroy()
  }
  const abort = () => {
    stop(null)
    reject(new Error('nobody waits for it any more'))
  }
  function tryNext(): void {
    clearTimeout(timer)
    const address = addresses[next++]
    if (address === undefined) return
    const socket = connect(address)
    open.add(socket)
    socket.once('connect', () => {
      stop(socket)
      socket.removeAllListeners('error')
      resolve(socket)
    })
    socket.once('error', (error) => {
      open.delete(socket)
      if (next < addresses.length) return tryNext()
      if (open.size > 0) return
      stop(null)
      reject(error)
    })
    timer = setTimeout(tryNext, nextAfterMs)
  }
  if (signal.aborted) abort()
  else {
    signal.addEventListener('abort', abort, { once: true })
    tryNext()
  }
  return promise
}

const connectTo = (address: string, port: number): Socket =>
  pourable({ host: address, port, allowHalfOpen: true, noDelay: true, keepAlive: true })

/** Looked up anew when a second has passed: they seldom change, and asking the kernel is felt in every connection. */
function addressesOfThisMachine(): () => readonly string[] {
  let known: { readonly at: number; readonly addresses: readonly string[] } | null = null
  return () => {
    const now = performance.now()
    if (known === null || now - known.at > machineMs) {
      const addresses = Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map(({ address }) => address))
      known = { at: now, addresses }
    }
    return known.addresses
  }
}

/** A resolver that does not heed the signal is not waited for. */
function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  const abort = () => reject(new Error('nobody waits for it any more'))
  if (signal.aborted) abort()
  signal.addEventListener('abort', abort, { once: true })
  return Promise.race([promise, aborted]).finally(() => signal.removeEventListener('abort', abort))
}

/** The system's own words, which name no more than the client asked for. */
function wordsOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  return words[code] ?? (code === '' && error instanceof Error ? printable(error.message) : code)
}
const words: Readonly<Record<string, string>> = {
  ENOTFOUND: 'there is no such name',
  ENODATA: 'the name has no address',
  ETIMEOUT: 'no name server answered',
  ECANCELLED: 'nobody waits for it any more',
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was reset',
  ENETUNREACH: 'there is no way to that network',
  EHOSTUNREACH: 'there is no way to that host',
}
