import { z } from 'zod'

type Shelf = Pick<Storage, 'getItem' | 'setItem'>
const Kept = z.object({ sent: z.string(), key: z.string() })

/** The key under which this is sent, until it has arrived: the same for the same, also after the page was opened anew, so that a lost
 *  answer makes no second one; another one as soon as anything of it is different. */
export function keyFor(shelf: Shelf, place: string, body: unknown, newKey: () => string): string {
  const sent = JSON.stringify(body)
  try {
    const kept = Kept.safeParse(JSON.parse(shelf.getItem(place) ?? 'null'))
    if (kept.success && kept.data.sent === sent) return kept.data.key
  } catch {}
  const key = newKey()
  try {
    shelf.setItem(place, JSON.stringify({ sent, key }))
  } catch {}
  return key
}
