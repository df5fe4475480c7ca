import { callNanosMax } from '@anchorhold/core/prices'
import type { Outbox } from '@anchorhold/link/outbox'
import { type EventBody, eventBodies, type NewEvent, type NodeName, parseNewEvent } from '@anchorhold/protocol/events'
import type { RequestId, SessionId } from '@anchorhold/protocol/ids'
import { type Asked } from '@anchorhold/protocol/authority'
import { type LinkRecord, type OutboxRecord, Reservation } from '@anchorhold/protocol/link'
import type { Nanos } from '@anchorhold/protocol/money'
import { type Booking, keyOf } from './nodes.ts'

export type OpenCall = Reservation & { readonly n: number; readonly session: SessionId; readonly beganMs: number }
/** One usage. An outbox that went on behind a number may hold it twice, at the old number and at a new one. */
type Entry = Booking & {
  n: number
  readonly exceeds: boolean
  /** The numbers that it had, each with the last that was there then: sums that were made up to one of those know it by that. */
  readonly had: { readonly n: number; readonly last: number }[]
}
/** Whether a sum of what came up to a record lacks it. */
const isAfter =
  (to: number) =>
  ({ n, had }: Entry) =>
    n > to && !had.some((old) => old.n <= to && to <= old.last)

/** By record, what is known of requests and grants beside what a lease or the daemon says. */
export type Asks = {
  readonly opened: readonly { readonly n: number; readonly asked: Asked }[]
  /** Taken back here, or heard to be answered. */
  readonly settled: ReadonlySet<RequestId>
  readonly told: ReadonlySet<RequestId>
  readonly used: ReadonlySet<RequestId>
}

/** What the gate has written down of money and requests, as long as it is in the outbox.
 *  Invariant: nothing is known here that was not written; what cannot be written breaks the records for good. */
export type Records = {
  readonly broken: boolean
  /** Calls with a reservation and no usage yet. */
  readonly openCalls: ReadonlyMap<string, OpenCall>
  /** The nodes that calls of a gate before this one went through, by key. */
  readonly nodesSeen: ReadonlyMap<string, { readonly simulated: boolean; readonly name: NodeName }>
  /** The last record of a session; the last that went through a node; the last of all. 0 where there is none. */
  lastOf(session: SessionId): number
  readonly lastAtNodes: number
  readonly last: number
  /** When each call of these records began. */
  beginnings(): readonly number[]
  /** What was booked after a record, and is set aside, for calls through a node. */
  bookedAt(key: string, after: number): readonly Booking[]
  reservedAt(key: string): readonly Booking[]
  /** What a session's calls cost after a record, and whether one of them cost more than was set aside for it; what cannot be read may
   *  have. */
  spentAfter(session: SessionId, n: number): { readonly nanos: Nanos; readonly exceeds: boolean }
  asks(session: SessionId): Asks
  /** These write, and throw where the disk fails. What no reader would take is not written: that is a bug, and breaks nothing else. */
  reserve(session: SessionId, reservation: Reservation, beganMs: number): void
  book(session: SessionId, usage: EventBody<'usage'>, beganMs: number): number
  note(session: SessionId, event: NewEvent): void
  flush(): Promise<void>
  /** What is written is safe from the gate's own death; its way to the disk may be shared with others. */
  flushSoon(): void
  /** Drops what came up to this record, and the sessions of which nothing is left then, unless one is held. Returns those. */
  forgetUpTo(n: number, isHeld: (session: SessionId) => boolean): readonly SessionId[]
}

export type RecordsParts = {
  readonly outbox: Outbox
  /** Resolves soon. What is due by then goes to the disk together. */
  readonly soon: () => Promise<void>
  readonly onBroken: (error: Error) => void
  readonly say?: (sentence: string) => void
}

const asksTypes: ReadonlySet<string> = new Set(['request.opened', 'request.answered', 'request.told', 'grant.used'])

export async function openRecords({ outbox, soon, onBroken, say = () => {} }: RecordsParts): Promise<Records> {
  const openCalls = new Map<string, OpenCall>()
  const nodesSeen = new Map<string, { readonly simulated: boolean; readonly name: NodeName }>()
  /** By session and by the key of each node. */
  const booked = new Map<string, Entry[]>()
  const asking = new Map<SessionId, { readonly n: number; readonly event: NewEvent }[]>()
  const lastOf = new Map<SessionId, number>()
  /** The last record of each session that speaks of money and cannot be read. */
  const unreadable = new Map<SessionId, number>()
  let lastAtNodes = 0
  let broken = false
  let flushDue = false

  /** While records are read: what is booked by its call, the record before this one, and the last one before numbers went on further behind. */
  const entered = new Map<string, Entry>()
  let previous = 0
  let lastBefore = 0
  for (const record of await outbox.read(0, Infinity)) {
    const { n, session, type } = record
    if (n !== previous + 1) lastBefore = previous
    previous = n
    lastOf.set(session, n)
    try {
      take(record)
    } catch {
      // One session's record must not keep the gate from all the others. What it has spent is not known, so it spends no more.
      const isMoney = type === 'reservation' || type === 'usage'
      if (isMoney) unreadable.set(session, n)
      say(
        `Cannot read record ${n} ("${type}") of session "${session}": passed over${isMoney ? ', and its budget is closed until somebody sets it' : ''}`,
      )
    }
  }
  entered.clear()

  // Under its old number, a record would count as in every lease that was kept by then, and as known to the daemon.
  outbox.onMoved((after, by) => {
    const moved = (n: number) => (n > after ? n + by : n)
    for (const [call, open] of openCalls) openCalls.set(call, { ...open, n: moved(open.n) })
    // One entry stands under several keys.
    for (const entry of new Set([...booked.values()].flat())) entry.n = moved(entry.n)
    for (const [session, events] of asking)
      asking.set(
        session,
        events.map(({ n, event }) => ({ n: moved(n), event })),
      )
    for (const last of [lastOf, unreadable]) for (const [session, n] of last) last.set(session, moved(n))
    lastAtNodes = moved(lastAtNodes)
  })

  function take({ n, at, session, type, body }: OutboxRecord): void {
    if (type === 'reservation') {
      const reservation = Reservation.parse(withSum(body, 'nanos'))
      // Written once more, and settled before that.
      if (entered.has(reservation.call)) return
      if (isPurseGivenBack(reservation)) return void openCalls.delete(reservation.call)
      openCalls.set(reservation.call, { ...reservation, n, session, beganMs: reservation.began_at ?? at })
      see(reservation)
    } else if (type === 'usage') {
      const usage = eventBodies.usage.parse(withSum(body, 'cost_nanos'))
      const known = usage.call === undefined ? undefined : entered.get(usage.call)
      if (known !== undefined) return moveTo(n, known, usage)
      const entry = enter(session, n, usage, usage.began_at ?? at)
      if (usage.call !== undefined) entered.set(usage.call, entry)
      see(usage)
    } else if (asksTypes.has(type)) remember(session, n, parseNewEvent(type, body))
  }

  function see({ simulated, nodes = [] }: Pick<Reservation, 'simulated' | 'nodes'>): void {
    for (const name of nodes) nodesSeen.set(keyOf(simulated, name), { simulated, name })
  }

  function remember(session: SessionId, n: number, event: NewEvent): void {
    if (asksTypes.has(event.type)) addTo(asking, session, { n, event })
  }

  /** It is in the books already, and told to the daemon by this number alone. */
  function moveTo(n: number, entry: Entry, usage: EventBody<'usage'>): void {
    entry.had.push({ n: entry.n, last: lastBefore })
    entry.n = n
    if (keysOf(usage).length > 0) lastAtNodes = n
  }

  function enter(session: SessionId, n: number, usage: EventBody<'usage'>, beganMs: number): Entry {
    const { call = '', cost_nanos: nanos } = usage
    const reservation = openCalls.get(call)
    openCalls.delete(call)
    const exceeds = reservation !== undefined && nanos > reservation.nanos
    const keys = keysOf(usage)
    if (keys.length > 0) lastAtNodes = n
    const entry: Entry = { n, nanos, beganMs, exceeds, had: [] }
    for (const key of [session, ...keys]) addTo(booked, key, entry)
    return entry
  }

  function breakOn(error: unknown): void {
    if (broken) return
    broken = true
    onBroken(error instanceof Error ? error : new Error(String(error)))
  }

  function append(session: SessionId, entry: NewEvent | LinkRecord): number {
    if (!isReadable(entry)) {
      const why = `Not written, because nobody could read it again: a record "${entry.type}" of session "${session}"`
      say(why)
      throw new Error(why)
    }
    try {
      const n = outbox.append(session, entry)
      lastOf.set(session, n)
      return n
    } catch (error) {
      breakOn(error)
      throw error
    }
  }

  async function flush(): Promise<void> {
    try {
      await outbox.flush()
    } catch (error) {
      breakOn(error)
      throw error
    }
  }

  function flushSoon(): void {
    if (flushDue) return
    flushDue = true
    const to = outbox.written
    void soon().then(() => {
      flushDue = false
      if (outbox.last < to) return flush().catch(() => {})
      // Another's way to the disk has taken it along. What was written since has a while of its own.
      if (outbox.last < outbox.written) flushSoon()
    })
  }

  return {
    get broken() {
      return broken
    },
    openCalls,
    nodesSeen,
    lastOf: (session) => lastOf.get(session) ?? 0,
    get lastAtNodes() {
      return lastAtNodes
    },
    get last() {
      return outbox.written
    },
    beginnings: () => [...openCalls.values(), ...[...booked.values()].flat()].map(({ beganMs }) => beganMs),
    bookedAt: (key, after) => (booked.get(key) ?? []).filter(isAfter(after)),
    reservedAt: (key) => [...openCalls.values()].filter((call) => keysOf(call).includes(key)),
    spentAfter(session, n) {
      const later = (booked.get(session) ?? []).filter(isAfter(n))
      return {
        nanos: later.reduce((sum, entry) => sum + entry.nanos, 0),
        exceeds: unreadable.has(session) || later.some(({ exceeds }) => exceeds),
      }
    },
    asks: (session) => asksIn(asking.get(session) ?? []),
    reserve(session, reservation, beganMs) {
      const n = append(session, { type: 'reservation', body: reservation })
      openCalls.set(reservation.call, { ...reservation, n, session, beganMs })
    },
    book(session, usage, beganMs) {
      const n = append(session, { type: 'usage', body: usage })
      enter(session, n, usage, beganMs)
      return n
    },
    note: (session, event) => remember(session, append(session, event), event),
    flush,
    flushSoon,
    forgetUpTo(n, isHeld) {
      dropUpTo(booked, n)
      dropUpTo(asking, n)
      for (const [session, last] of unreadable) if (last <= n) unreadable.delete(session)
      const over = [...lastOf].flatMap(([session, last]) => (last > n || isHeld(session) ? [] : [session]))
      for (const session of over) lastOf.delete(session)
      return over
    },
  }
}

/** Gates before this one set a sum aside at once for small calls to come, and gave it back by a record of the same name. One that was not
 *  given back is booked in full, as any call that is open: what the power took of its small calls is not known. */
const isPurseGivenBack = ({ boot, nanos }: Reservation) => boot !== undefined && nanos === 0

/** Under which keys of nodes a call is booked. */
const keysOf = ({ simulated, nodes = [] }: Pick<Reservation, 'simulated' | 'nodes'>) =>
  nodes.map((name) => keyOf(simulated, name))

/** Whether a reader will take it. The two that every call writes are ours but for their sums; the others are rare. */
function isReadable(entry: NewEvent | LinkRecord): boolean {
  switch (entry.type) {
    case 'reservation':
      return Number.isSafeInteger(entry.body.nanos)
    case 'usage':
      return [entry.body.cost_nanos, ...Object.values(entry.body.tokens)].every(Number.isSafeInteger)
    default:
      try {
        parseNewEvent(entry.type, entry.body)
        return true
      } catch {
        return false
      }
  }
}

/** Gates before this one let cells ask for sums that no call can cost. Such a one counts as the most that one can. */
function withSum(body: unknown, name: 'nanos' | 'cost_nanos'): unknown {
  const sum = (body as Readonly<Record<string, unknown>> | null)?.[name]
  return typeof sum === 'number' && sum > Number.MAX_SAFE_INTEGER ? { ...(body as object), [name]: callNanosMax } : body
}

function addTo<K, V>(lists: Map<K, V[]>, key: K, value: V): void {
  const list = lists.get(key)
  if (list === undefined) lists.set(key, [value])
  else list.push(value)
}

function dropUpTo<K, V extends { readonly n: number }>(lists: Map<K, V[]>, n: number): void {
  for (const [key, list] of lists) {
    const rest = list.filter((one) => one.n > n)
    if (rest.length > 0) lists.set(key, rest)
    else lists.delete(key)
  }
}

function asksIn(records: readonly { readonly n: number; readonly event: NewEvent }[]): Asks {
  const opened: { readonly n: number; readonly asked: Asked }[] = []
  const [settled, told, used] = [new Set<RequestId>(), new Set<RequestId>(), new Set<RequestId>()]
  for (const { n, event } of records) {
    if (event.type === 'request.opened' && event.body.digest !== undefined) {
      const { id: request, digest, pins = [], expires_at = null } = event.body
      opened.push({ n, asked: { request, digest, pins, expires_at } })
    }
    if (event.type === 'request.answered' || event.type === 'request.told') settled.add(event.body.id)
    if (event.type === 'request.told') told.add(event.body.id)
    if (event.type === 'grant.used') used.add(event.body.request)
  }
  return { opened, settled, told, used }
}
