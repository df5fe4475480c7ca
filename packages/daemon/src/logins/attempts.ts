import { Failure } from '@anchorhold/protocol/failures'
import type { RandomBytes } from '@anchorhold/protocol/ids'

/** So much is counted against one key (an account, an address, a device) before it has to wait for the rest of the window. */
export type Charge = { readonly key: string; readonly max: number }

const windowMs = 15 * 60_000
const keysMax = 10_000
/** Of one kind: those that anybody may ask for push out none that somebody has earned. */
const ticketsMax = 10_000
const ticketMs = 5 * 60_000

/** What is remembered of logins that are not finished, in memory: a daemon that starts anew has forgotten it, and asks again. */
export interface Attempts {
  /** Counts a try before it is looked at, so that many at once are not all the first. Throws `too_many` when one key has had its
   *  share; then none is counted. */
  charge(charges: readonly Charge[]): void
  /** It was a right one, which does not count. */
  forgive(keys: readonly string[]): void
  /** Keeps something for whoever has the ticket, for a few minutes. */
  keep(what: Kept): string
  /** Looks without taking. */
  see<K extends Kept['kind']>(kind: K, ticket: string): Extract<Kept, { kind: K }> | null
  /** Takes it, once. */
  take<K extends Kept['kind']>(kind: K, ticket: string): Extract<Kept, { kind: K }> | null
}

export type Kept =
  /** A password was right; a code is missing. */
  | { readonly kind: 'second'; readonly user: string }
  /** A challenge that a passkey is to sign, or to be made with. */
  | { readonly kind: 'passkey'; readonly challenge: string; readonly origin: string }
  | { readonly kind: 'new passkey'; readonly challenge: string; readonly origin: string; readonly user: string }
  /** The daemon is looked for through its public URL. */
  | { readonly kind: 'reach' }
  /** A secret that an authenticator is to show that it has. */
  | { readonly kind: 'totp'; readonly secret: Uint8Array; readonly user: string }

export function attempts({ now, random }: { readonly now: () => number; readonly random: RandomBytes }): Attempts {
  const counts = new Map<string, { count: number; readonly since: number }>()
  type Ticket = { readonly what: Kept; readonly until: number }
  const tickets: Readonly<Record<Kept['kind'], Map<string, Ticket>>> = {
    second: new Map(),
    passkey: new Map(),
    'new passkey': new Map(),
    reach: new Map(),
    totp: new Map(),
  }
  const standing = (key: string) => {
    const found = counts.get(key)
    if (found !== undefined && Math.abs(now() - found.since) < windowMs) return found
    counts.delete(key)
    return undefined
  }
  const see: Attempts['see'] = (kind, ticket) => {
    const found = tickets[kind].get(ticket)
    if (found === undefined || found.until < now()) return null
    return found.what as Extract<Kept, { kind: typeof kind }>
  }
  return {
    charge(charges) {
      for (const { key, max } of charges) {
        const found = standing(key)
        if (found === undefined || found.count < max) continue
        const retryMs = Math.max(1000, found.since + windowMs - now())
        throw new Failure('too_many', `Cannot look at another try: there were too many; try again in ${waitWords(retryMs)}`, {
          hint: 'A passkey or a login link works meanwhile: anchorhold login-link',
          retryMs,
        })
      }
      for (const { key } of charges) {
        const found = standing(key)
        if (found === undefined) forgetLeast(counts, keysMax).set(key, { count: 1, since: now() })
        else found.count++
      }
    },
    forgive(keys) {
      for (const key of keys) {
        const found = standing(key)
        if (found !== undefined) found.count--
      }
    },
    keep(what) {
      const ticket = Buffer.from(random(32)).toString('base64url')
      makeRoom(tickets[what.kind], ticketsMax).set(ticket, { what, until: now() + ticketMs })
      return ticket
    },
    see,
    take(kind, ticket) {
      const what = see(kind, ticket)
      if (what !== null) tickets[kind].delete(ticket)
      return what
    },
  }
}

/** Whoever was tried least goes, the oldest of them: many names that nobody has cannot push out one that is being guessed at. */
function forgetLeast<T extends { count: number }>(map: Map<string, T>, max: number): Map<string, T> {
  if (map.size < max) return map
  let least: readonly [string, T] | null = null
  for (const one of map) {
    if (least === null || one[1].count < least[1].count) least = one
    if (least[1].count <= 1) break
  }
  if (least !== null) map.delete(least[0])
  return map
}

/** The oldest goes. */
function makeRoom<T>(map: Map<string, T>, max: number): Map<string, T> {
  if (map.size >= max) for (const [oldest] of map) return (map.delete(oldest), map)
  return map
}

const waitWords = (ms: number): string => (ms < 60_000 ? `${Math.ceil(ms / 1000)} s` : `${Math.ceil(ms / 60_000)} min`)
