import { expect, test } from 'vitest'
import { afterKeeper, type KeeperEvent, type KeeperLife, keeperLives } from './keeper-lives.ts'

const lives = Object.keys(keeperLives) as KeeperLife[]
const events: readonly KeeperEvent[] = ['sought', 'wanted', 'attached', 'closed', 'taken_in', 'unreadable', 'not_started']
const legal: readonly (readonly [KeeperLife, KeeperEvent, KeeperLife])[] = [
  ['none', 'sought', 'finding'],
  ['none', 'wanted', 'starting'],
  ['finding', 'attached', 'live'],
  ['finding', 'taken_in', 'none'],
  ['finding', 'unreadable', 'unread'],
  ['starting', 'attached', 'live'],
  ['starting', 'not_started', 'none'],
  ['starting', 'unreadable', 'unread'],
  ['live', 'closed', 'leaving'],
  ['leaving', 'taken_in', 'none'],
  ['leaving', 'unreadable', 'unread'],
  ['unread', 'sought', 'finding'],
]

test.each(legal)('afterKeeper() leads from %s on %s to %s', (life, event, next) => {
  expect(afterKeeper(life, event)).toBe(next)
})

const illegal = lives.flatMap((life) =>
  events.filter((event) => !legal.some(([of, on]) => of === life && on === event)).map((event) => [life, event] as const),
)

test.each(illegal)('afterKeeper() lets nothing of %s come of %s', (life, event) => {
  expect(afterKeeper(life, event)).toBeNull()
})

test('afterKeeper() leads to a keeper that is started from none alone, and from everywhere back to none', () => {
  expect(lives.filter((life) => events.some((event) => afterKeeper(life, event) === 'starting'))).toEqual(['none'])
  for (const life of lives) {
    const reached = new Set<KeeperLife>([life])
    for (const each of reached)
      for (const event of events) {
        const next = afterKeeper(each, event)
        if (next !== null) reached.add(next)
      }
    expect(reached).toContain('none')
  }
  expect([legal.length, illegal.length]).toEqual([12, 30])
})
