import type { Store } from '@anchorhold/daemon/store/store'
import type { Event } from '@anchorhold/protocol/events'
import { expect } from 'vitest'
import type { House } from './house.ts'

/** Somebody who watches from the beginning and comes back whenever a daemon is there. */
export function watch(one: House, store: Store) {
  const events: Event[] = []
  const said = new Map<string, string>()
  let current: { readonly parts: House['parts']; readonly end: AbortController } | null = null
  async function follow(parts: NonNullable<House['parts']>, { signal }: AbortController): Promise<void> {
    const read = (from: number, limit: number) => store.events.after(one.session, from, limit)
    for await (const seen of parts.hub.watch({ session: one.session, after: events.at(-1)?.seq ?? 0, read, signal })) {
      if (signal.aborted) return
      if ('event' in seen) events.push(seen.event)
      else if (seen.live.type === 'text.delta') {
        const before = said.get(seen.live.block) ?? ''
        expect(seen.live.offset).toBeLessThanOrEqual(before.length)
        said.set(seen.live.block, before.slice(0, seen.live.offset) + seen.live.text)
      }
    }
  }
  return {
    events,
    said,
    /** Follows the daemon that is there now. */
    look() {
      if (current?.parts === one.parts) return
      current?.end.abort()
      current = one.parts === null ? null : { parts: one.parts, end: new AbortController() }
      if (current !== null) void follow(current.parts!, current.end)
    },
    end: () => current?.end.abort(),
  }
}
