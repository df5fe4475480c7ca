import { expect, test } from 'vitest'
import { placeForHidden } from './places.ts'

test('placeForHidden() gives two places among all tabs, and each anew when it is left', async () => {
  const tabs = Array.from({ length: 3 }, () => new AbortController())
  const takes = (tab: number) => placeForHidden(navigator.locks, tabs[tab]!.signal)
  expect([await takes(0), await takes(1), await takes(2)]).toEqual([true, true, false])
  tabs[0]!.abort()
  await expect.poll(() => takes(2)).toBe(true)
  for (const tab of tabs) tab.abort()
})

test('placeForHidden() gives none where tabs cannot ask each other', async () => {
  expect(await placeForHidden(undefined, new AbortController().signal)).toBe(false)
})
