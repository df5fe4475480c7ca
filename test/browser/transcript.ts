import type { Event } from '@anchorhold/protocol/events'
import type { Page } from 'playwright-core'
import { isDeepStrictEqual } from 'node:util'
import { expect } from 'vitest'

export const settled = (page: Page) => page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => resolve(null))))

/** Every row of a conversation, from its first to its last, by its key; a key that is there twice is given twice. */
export async function rowsOf(page: Page): Promise<string[]> {
  const keys: string[] = []
  const log = page.getByRole('region', { name: 'Conversation' })
  // Rows that are measured on the way up move it a little: it is at the top when it stays there.
  for (let still = 0; still < 3;) {
    still = (await log.evaluate((element) => element.scrollTop)) === 0 ? still + 1 : 0
    await log.evaluate((element) => element.scrollTo(0, 0))
    await settled(page)
  }
  for (;;) {
    await settled(page)
    await settled(page)
    const seen = await log
      .locator('[data-row-key]')
      .evaluateAll((rows) => rows.map((row) => row.getAttribute('data-row-key') ?? ''))
    if (new Set(seen).size !== seen.length) return [...keys, 'a row is there twice:', ...seen]
    for (const key of seen) if (!keys.includes(key)) keys.push(key)
    const end = await log.evaluate((element) => {
      const before = element.scrollTop
      element.scrollBy(0, 400)
      return element.scrollTop === before
    })
    if (end) return keys
  }
}

/** What the log itself says that a page must show of it, in this order. */
const wantedOf = (events: readonly Event[]): string[] =>
  events.flatMap((event) =>
    event.type === 'prompt'
      ? [`prompt ${event.body.id}`]
      : event.type === 'text'
        ? [`block ${event.body.block}`]
        : event.type === 'session.changed'
          ? [`session.changed ${event.seq}`]
          : [],
  )
const shownOf = (keys: readonly string[]): string[] => keys.filter((key) => /^(prompt|block|session\.changed|a row) /.test(key))

/** Waits until a page shows what the log holds, whichever of the two is a moment ahead. */
export async function showsAll(page: Page, log: () => Promise<readonly Event[]>, label = ''): Promise<void> {
  const look = async () => {
    const shown = shownOf(await rowsOf(page))
    const wanted = wantedOf(await log())
    return isDeepStrictEqual(shown, wanted) ? 'all' : { shown, wanted }
  }
  await expect.poll(look, { timeout: 30_000, message: label }).toBe('all')
}
