import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { newest, somewhere, trimmed, withEarlier, withLater, withNews } from './log.ts'
import { numbered } from './test-events.ts'

const seqs = ({ events }: { events: readonly { seq: number }[] }) => events.map(({ seq }) => seq)

test('withNews() appends what follows, leaves out what is known, and asks for what is missing', () => {
  const log = newest({ events: numbered(5, 8), more: true })
  expect(seqs(withNews(log, numbered(7, 10))!)).toEqual([5, 6, 7, 8, 9, 10])
  expect(withNews(log, numbered(6, 8))).toBe(log)
  expect(withNews(log, numbered(10, 11))).toBeNull()
})

test('withNews() leaves a run in the middle of a log alone: the end is fetched when somebody gets there', () => {
  const log = somewhere({ events: numbered(5, 8), more: true }, 20)
  expect(log.later).toBe(true)
  expect(withNews(log, numbered(21, 21))).toBe(log)
  expect(somewhere({ events: numbered(5, 8), more: true }, 8).later).toBe(false)
})

test('a run of a log has no gap and nothing twice, whatever comes in which order', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 300 }),
      fc.array(
        fc.tuple(fc.constantFrom('news', 'earlier', 'later'), fc.integer({ min: 0, max: 40 }), fc.integer({ min: 1, max: 60 })),
        {
          maxLength: 40,
        },
      ),
      (total, steps) => {
        let log = newest({ events: numbered(Math.max(1, total - 20), total), more: total > 20 })
        for (const [kind, back, count] of steps) {
          if (kind === 'news') log = withNews(log, numbered(Math.max(1, log.last + 1 - back), log.last + count)) ?? log
          else if (kind === 'earlier') {
            const to = Math.min(log.last, log.first - 1 + back)
            const from = Math.max(1, log.first - count)
            if (to >= from) log = withEarlier(log, { events: numbered(from, to), more: from > 1 })
          } else log = withLater(log, { events: numbered(Math.max(1, log.last + 1 - back), log.last + count), more: false })
        }
        const all = seqs(log)
        expect(all).toEqual(Array.from({ length: all.length }, (_, index) => log.first + index))
        expect(all.at(-1)).toBe(log.last)
      },
    ),
  )
})

test('trimmed() lets go of the oldest, and knows that there are earlier ones', () => {
  const log = newest({ events: numbered(1, 100), more: false })
  expect(trimmed(log, 80)).toBe(log)
  expect(trimmed(log, 50)).toMatchObject({ first: 51, last: 100, earlier: true })
})
