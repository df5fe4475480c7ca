import { type NewPrompt, PromptMode } from '@anchorhold/protocol/sessions'
import { SessionId } from '@anchorhold/protocol/ids'
import { z } from 'zod'

/** A prompt that was written here and that the log does not show yet. */
export const Waiting = z.object({
  /** The daemon takes a prompt once under this key, however often it is sent. */
  key: z.string(),
  session: SessionId,
  text: z.string(),
  mode: PromptMode,
  at: z.number(),
  /** The daemon's name for it, once it has it. */
  id: z.string().nullable(),
  /** Why the daemon refused it. */
  refused: z.string().nullable(),
})
export type Waiting = z.infer<typeof Waiting>

export type OutboxOptions = {
  readonly storage: Pick<Storage, 'getItem' | 'setItem'>
  readonly send: (session: SessionId, prompt: NewPrompt, signal: AbortSignal) => Promise<{ readonly id: string }>
  /** Whether the daemon did not answer, so that the same must be sent again. */
  readonly isUnreachable: (error: unknown) => boolean
  readonly wordsOf: (error: unknown) => string
  readonly newKey: () => string
  readonly now: () => number
  /** Tries again after a while, if there is a connection: without one, its return is the time to. */
  readonly later: (again: () => void) => void
}

export interface Outbox {
  /** Every prompt that waits, in the order in which they were written; the same array until something changes. */
  list(): readonly Waiting[]
  /** Whether it was taken: not when too many wait already. None of those is given up for it. */
  add(session: SessionId, text: string, mode: PromptMode): boolean
  /** Whether the device has it, so that it outlives this page. */
  isKept(key: string): boolean
  /** Sends what was not acknowledged: after the connection came back, or when somebody asks for it. */
  sendAll(): Promise<void>
  /** The network is another one, or the device was asleep: what is under way may never arrive, so it is sent once more. */
  sendAnew(): Promise<void>
  retry(key: string): Promise<void>
  discard(key: string): void
  /** The log has these prompts: they need not be kept any more. */
  seen(ids: ReadonlySet<string>): void
  /** Another tab has changed what is stored. */
  reread(): void
  /** Forgets what this page alone has: the device may be somebody else's from here on. */
  letGo(): void
  subscribe(listener: () => void): () => void
}

const place = 'anchorhold.outbox'
/** What a full storage of a phone could still hold. */
export const waitingMax = 200
/** More than can be on their way at a time. */
const shownMax = 1000

/** Prompts are stored before they are sent and leave when the log shows them: what was typed survives a lost connection, a closed tab
 *  and a restart of the daemon. Several tabs may send the same one; the daemon takes each key once. */
export function outbox({ storage, send, isUnreachable, wordsOf, newKey, now, later }: OutboxOptions): Outbox {
  /** What the device had no room for, by its key: it is sent from here, and lost with the page. */
  let unkept: ReadonlyMap<string, Waiting> = new Map()
  let waiting = held()
  const listeners = new Set<() => void>()
  /** Those that were written here: of others that the daemon has, this page's stream may begin behind what shows them. */
  const own = new Set<string>()
  let sending: Promise<void> | null = null
  let wanted = false
  let underway = new AbortController()
  /** What the log has shown lately: it may be faster than the answer that tells a prompt's id. */
  const shown = new Set<string>()

  function read(): readonly Waiting[] {
    try {
      return z.array(Waiting).parse(JSON.parse(storage.getItem(place) ?? '[]'))
    } catch {
      return []
    }
  }
  function held(): readonly Waiting[] {
    const stored = read()
    const names = new Set(stored.map(({ key }) => key))
    const others = [...unkept.values()].filter(({ key }) => !names.has(key))
    return [...stored.map((one) => unkept.get(one.key) ?? one), ...others]
  }
  function change(to: (list: readonly Waiting[]) => readonly Waiting[]): void {
    // Another tab may have written since: its prompts stay.
    waiting = to(held())
    unkept = keep()
    for (const listener of listeners) listener()
  }
  /** Stores what waits; what the device does not have of it afterwards. */
  function keep(): ReadonlyMap<string, Waiting> {
    try {
      storage.setItem(place, JSON.stringify(waiting))
      return new Map()
    } catch {
      const stored = new Set(read().map((one) => JSON.stringify(one)))
      return new Map(waiting.filter((one) => !stored.has(JSON.stringify(one))).map((one) => [one.key, one]))
    }
  }
  const update = (key: string, more: Partial<Waiting>) =>
    change((list) => list.map((one) => (one.key === key ? { ...one, ...more } : one)))

  async function sendEach(): Promise<void> {
    for (;;) {
      const next = waiting.find(({ id, refused }) => id === null && refused === null)
      if (next === undefined) return
      const { key, session, text, mode } = next
      const { signal } = (underway = new AbortController())
      try {
        const { id } = await send(session, { text, mode, idempotency_key: key }, signal)
        if (shown.has(id) || !own.has(key)) it.discard(key)
        else update(key, { id })
      } catch (error) {
        if (signal.aborted) return
        // The order in which they were written is kept: none overtakes one that could not be sent.
        if (isUnreachable(error)) return later(() => void it.sendAll())
        update(key, { refused: wordsOf(error) })
      }
    }
  }

  /** Over in the moment in which nothing is wanted any more: between the two, a prompt would find nobody to send it. */
  async function sendWanted(): Promise<void> {
    try {
      while (wanted) {
        wanted = false
        await sendEach()
      }
    } finally {
      sending = null
    }
  }

  const it: Outbox = {
    list: () => waiting,
    add(session, text, mode) {
      if (held().length >= waitingMax) return false
      const key = newKey()
      own.add(key)
      change((list) => [...list, { key, session, text, mode, at: now(), id: null, refused: null }])
      void it.sendAll()
      return true
    },
    isKept: (key) => !unkept.has(key),
    sendAll() {
      // Asked while one that will fail is still under way, it begins anew behind that.
      wanted = true
      sending ??= sendWanted()
      return sending
    },
    sendAnew() {
      underway.abort()
      return it.sendAll()
    },
    async retry(key) {
      update(key, { refused: null })
      await it.sendAll()
    },
    discard: (key) => change((list) => list.filter((one) => one.key !== key)),
    seen(ids) {
      for (const id of ids) shown.add(id)
      for (const id of shown) if (shown.size > shownMax) shown.delete(id)
      if (waiting.some(({ id }) => id !== null && ids.has(id)))
        change((list) => list.filter(({ id }) => id === null || !ids.has(id)))
    },
    reread() {
      waiting = held()
      for (const listener of listeners) listener()
    },
    letGo() {
      unkept = new Map()
      it.reread()
    },
    subscribe(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
  }
  // What a page before this one has had acknowledged is in the log.
  if (waiting.some(({ id }) => id !== null)) change((list) => list.filter(({ id }) => id === null))
  return it
}
