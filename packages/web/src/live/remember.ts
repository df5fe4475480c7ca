import { keys } from './apply.ts'
import type { House } from './house.ts'
import type { SessionList } from './session-rows.ts'

const place = 'anchorhold.sessions'
const rememberedMax = 100
type Remembered = { readonly by: string; readonly list: SessionList }
/** Only what this same code has written is read again: another may have meant something else by it. */
const thisCode = document.querySelector<HTMLScriptElement>('script[type=module]')?.src ?? ''

/** Keeps the last known list on this device, so that the app has something to show before the daemon answers, and without it. */
export function rememberLists({ cache }: House): void {
  const key = keys.sessions(false)
  try {
    const known = JSON.parse(localStorage.getItem(place) ?? 'null') as Remembered | null
    if (known?.by === thisCode) {
      cache.setQueryData<SessionList>(key, known.list)
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
      const known: Remembered = { by: thisCode, list: { sessions: list.sessions.slice(0, rememberedMax), more: false } }
      try {
        localStorage.setItem(place, JSON.stringify(known))
      } catch {}
    }, 1000)
  })
}
