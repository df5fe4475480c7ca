import { attachTo, type Attachment } from '@anchorhold/link/attach'
import { type Clock, systemClock } from '@anchorhold/link/clock'
import { unixWire, type Wire } from '@anchorhold/link/wire'
import { type Event, parseNewEvent, type LiveFrame, type NewEvent } from '@anchorhold/protocol/events'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import { isLinkOnly, type OutboxRecord, type SourceName } from '@anchorhold/protocol/link'
import type { Hub } from '../hub.ts'
import type { Entry, Store } from '../store/store.ts'
import { transaction } from '../transaction.ts'

/** Takes what keepers and the gate have to tell into the log, once each, in order. */
export interface Sources {
  attach(source: SourceName, socketPath: string, onClose: () => void): Promise<Attachment>
  /** Stores what a dead process left in its outbox. */
  take(source: SourceName, records: readonly OutboxRecord[]): void
  /** The source's records end there. Where more of them are stored, its files are not those that it had, and people are told. */
  endsAt(source: SourceName, last: number): void
  /** The last record of the source that is stored. */
  lastOf(source: SourceName): number
  /** Resolves when everything that has come in from the source is stored, also what waits for another source. */
  settled(source: SourceName): Promise<void>
  /** Stores what may be stored now. */
  flush(): void
}

type Item =
  | { readonly record: OutboxRecord; readonly source: SourceName }
  | { readonly live: LiveFrame; readonly session: SessionId; readonly source: SourceName }

/** How long a record waits for one of another source before it is stored without it: that source may be gone for good. */
const orderWaitMs = 5000
/** What is stored in one go: a keeper that was long on its own has more than that to tell, and others are not to wait for all of it. */
const perTransaction = 5000
/** How soon a disk that could not be written is tried again. */
const retryMs = 1000

export type SourcesOptions = {
  readonly store: Store
  readonly hub: Hub
  readonly clock?: Clock
  readonly wire?: Wire
  readonly log: (message: string) => void
}

export function sources({ store, hub, clock = systemClock, wire = unixWire, log }: SourcesOptions): Sources {
  const queues = new Map<SourceName, Item[]>()
  const attachments = new Map<SourceName, Attachment>()
  const heldSince = new Map<SourceName, number>()
  /** Those who wait for the next flush. */
  let waiting: (() => void)[] = []
  let scheduled = false
  let held = false
  /** The disk could not be written the last time. */
  let failing = false

  function push(item: Item): void {
    const queue = queues.get(item.source) ?? []
    queues.set(item.source, queue)
    queue.push(item)
    schedule()
  }

  function schedule(): void {
    if (scheduled) return
    scheduled = true
    clock.soon(flush)
  }

  /** Whatever came in since the last time becomes one transaction. */
  function flush(): void {
    scheduled = false
    try {
      storeReady()
    } finally {
      const woken = waiting
      waiting = []
      for (const wake of woken) wake()
    }
  }

  function storeReady(): void {
    const ready: Item[] = []
    /** The last record of each source among them. */
    const readyTo = new Map<SourceName, number>()
    let isMore = false
    for (let moved = true; moved && !isMore;) {
      moved = false
      for (const [source, queue] of queues) {
        let count = 0
        while (count < queue.length && ready.length < perTransaction && mayStore(queue[count]!, readyTo)) {
          const item = queue[count]!
          ready.push(item)
          if ('record' in item) readyTo.set(source, item.record.n)
          count++
        }
        isMore ||= ready.length >= perTransaction
        if (count === 0) continue
        heldSince.delete(source)
        queue.splice(0, count)
        if (queue.length === 0) queues.delete(source)
        moved = true
      }
    }
    if (ready.length === 0) return
    const acks = new Map<SourceName, number>()
    const runs = runsOf(ready)
    const stored = storeRuns(runs, acks)
    if (stored === null) return putBack(ready)
    if (isMore) schedule()
    for (const [index, run] of runs.entries()) {
      if ('live' in run) hub.live(run.session, run.live)
      else if (stored[index]!.length > 0) hub.stored(stored[index]!)
    }
    for (const [source, n] of acks) attachments.get(source)?.ack(n)
  }

  /** Null when the disk cannot be written now. */
  function storeRuns(runs: readonly Run[], acks: Map<SourceName, number>): (readonly Event[])[] | null {
    try {
      return storeAll(runs, acks)
    } catch (error) {
      if (!(error instanceof Failure) || error.code !== 'storage_unavailable') throw error
      if (!failing) log(error.message)
      failing = true
      return null
    }
  }

  /** Nothing of it is acknowledged, so nothing is lost: it is tried again until the disk takes it. */
  function putBack(items: readonly Item[]): void {
    for (const [source, mine] of Map.groupBy(items, (item) => item.source))
      queues.set(source, mine.concat(queues.get(source) ?? []))
    clock.after(retryMs, schedule)
  }

  function storeAll(runs: readonly Run[], acks: Map<SourceName, number>): (readonly Event[])[] {
    const stored = store.atomically(() =>
      runs.map((run) => {
        if ('live' in run) return []
        const last = run.records.at(-1)!.n
        acks.set(run.source, last)
        const entries = entriesOf(run)
        const events = store.events.append(run.session, run.source, entries)
        if (entries.at(-1)?.n !== last) store.events.pass(run.source, last)
        return events
      }),
    )
    failing = false
    return stored
  }

  /** A record that names another source's record waits for it. */
  function mayStore(item: Item, readyTo: ReadonlyMap<SourceName, number>): boolean {
    const after = 'record' in item ? item.record.after : undefined
    if (after === undefined || store.events.lastOf(after.source) >= after.n) return true
    if ((readyTo.get(after.source) ?? 0) >= after.n) return true
    const since = heldSince.get(item.source) ?? clock.elapsed()
    heldSince.set(item.source, since)
    if (clock.elapsed() - since >= orderWaitMs) return true
    if (!held) {
      held = true
      clock.after(orderWaitMs, () => {
        held = false
        schedule()
      })
    }
    return false
  }

  function entriesOf({ source, session, records }: RecordRun): Entry[] {
    if (!speaksFor(source, session)) {
      log(`${source} spoke for ${session}: dropped`)
      return []
    }
    return records.flatMap((record) =>
      isLinkOnly(record.type) ? [] : [{ n: record.n, at: record.at, event: eventOf(source, record) }],
    )
  }

  /** What is malformed is kept as a notice: numbers must have no gap. */
  function eventOf(source: SourceName, record: OutboxRecord): NewEvent {
    try {
      const event = parseNewEvent(record.type, record.body)
      if (!isTheirs(source, event)) throw new Error('it is not theirs to tell')
      return event
    } catch (error) {
      log(`${source} sent a malformed ${record.type}: ${error instanceof Error ? error.message : String(error)}`)
      return {
        type: 'notice',
        body: { level: 'error', code: 'malformed_event', message: `An event of type "${record.type}" could not be read` },
      }
    }
  }

  /** Whoever has a session there hears of it; of the gate, those whose agents are at work. */
  function endsAt(source: SourceName, last: number): void {
    const stored = store.events.lastOf(source)
    if (last >= stored) return
    const who = source === 'gate' ? 'The gate' : 'The keeper of this session'
    const message = `${who} has lost its records, or older ones were put back: they end at ${last}, and ${stored} are stored. It goes on behind those; what it had not told by then is lost`
    log(`${source}: ${message}`)
    const event: NewEvent = { type: 'notice', body: { level: 'error', code: 'records_lost', message } }
    const told = source === 'gate' ? store.sessions.tended().map(({ id }) => id) : [source.slice('keeper/'.length) as SessionId]
    try {
      transaction({ store, hub, now: clock.now }, (tx) => {
        for (const session of told) tx.record(session, event)
      })
    } catch (error) {
      if (!(error instanceof Failure) || error.code !== 'storage_unavailable') throw error
    }
  }

  return {
    async attach(source, socketPath, onClose) {
      const after = store.events.lastOf(source)
      let attachment: Attachment | null = null
      attachment = await attachTo({
        wire,
        clock,
        socketPath,
        source,
        after,
        onRecord: (record) => push({ record, source }),
        onLive(session, live) {
          if (speaksFor(source, session)) push({ live, session, source })
        },
        onClose: () => {
          if (attachment !== null && attachments.get(source) === attachment) attachments.delete(source)
          onClose()
        },
      })
      attachments.set(source, attachment)
      endsAt(source, attachment.last)
      return attachment
    },
    take(source, records) {
      for (const record of records) push({ record, source })
    },
    endsAt,
    lastOf: store.events.lastOf,
    async settled(source) {
      while ((queues.get(source)?.length ?? 0) > 0) await new Promise<void>((resolve) => waiting.push(resolve))
    },
    flush,
  }
}

/** A keeper speaks for its own session only. */
const speaksFor = (source: SourceName, session: SessionId) => source === 'gate' || source === `keeper/${session}`

type RecordRun = { readonly source: SourceName; readonly session: SessionId; readonly records: OutboxRecord[] }
type Run = RecordRun | { readonly source: SourceName; readonly session: SessionId; readonly live: LiveFrame }

/** What follows each other from one source about one session is stored together. */
function runsOf(items: readonly Item[]): Run[] {
  const runs: Run[] = []
  for (const item of items) {
    if ('live' in item) {
      runs.push(item)
      continue
    }
    const { source, record } = item
    const last = runs.at(-1)
    if (last !== undefined && 'records' in last && last.source === source && last.session === record.session)
      last.records.push(record)
    else runs.push({ source, session: record.session, records: [record] })
  }
  return runs
}

/** What each of the two decides and asks. */
const asked = ['decision', 'request.opened', 'request.answered', 'request.left', 'request.told', 'grant.used'] as const

/** What each kind of source may tell of a session. A keeper runs as its cell's user: who gets out of a cell, or was never in one, can write
 *  into its outbox, and must not raise a budget or answer a request by that. */
const told: Readonly<Record<'keeper' | 'gate', ReadonlySet<NewEvent['type']>>> = {
  keeper: new Set<NewEvent['type']>([
    ...(['keeper.started', 'keeper.left', 'prompt', 'prompt.again', 'prompt.dropped', 'turn.started', 'turn.ended'] as const),
    ...(['text', 'thinking', 'tool.started', 'tool.finished', 'notice', 'agent.raw', 'workspace.at'] as const),
    ...(['terminal.opened', 'terminal.closed'] as const),
    ...asked,
  ]),
  gate: new Set<NewEvent['type']>([...(['usage', 'net', 'notice'] as const), ...asked]),
}

function isTheirs(source: SourceName, event: NewEvent): boolean {
  // They take back what they asked; who answers comes through a door.
  if (event.type === 'request.answered' && event.body.answer.decision !== 'withdrawn') return false
  return told[source === 'gate' ? 'gate' : 'keeper'].has(event.type)
}
