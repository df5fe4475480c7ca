import { Session } from '@anchorhold/protocol/sessions'
import { z } from 'zod'
import { keys } from './apply.ts'
import type { House } from './house.ts'
import type { SessionList } from './session-rows.ts'

const place = 'anchorhold.sessions'
const rememberedMax = 100
const Remembered = z.object({ sessions: z.array(Session), more: z.boolean() })

/** Keeps the last known list on this device, so that the app has something to show before the daemon answers, and without it. */
export function rememberLists({ cache }: House): void {
  const key = keys.sessions(false)
  try {
    const known = Remembered.safeParse(JSON.parse(localStorage.getItem(place) ?? 'null'))
    if (known.success) {
      cache.setQueryData<SessionList>(key, known.data)
      // It is asked for anew as soon as somebody looks.
      void cache.invalidateQueries({ queryKey: key, refetchType: 'none' })
    }
  } catch {}
  let saving: ReturnType<typeof setTimeout> | undefined
  cache.getQueryCache().subscribe(({ type, query }) => {
    if (type !== 'updated' || query.queryKey[0] !== key[0] || query.queryKey[1] !== key[1]) return
    saving ??= setTimeout(() => {
      saving = undefined
      const list = cache.getQueryData<SessionList>(key)
      if (list === undefined) return
      const text = JSON.stringify({ sessions: list.sessions.slice(0, rememberedMax), more: false })
      try {
        localStorage.setItem(place, text)
      } catch {}
    }, 1000)
  })
}
