import type { SessionId } from '@anchorhold/protocol/ids'
import { expect, test } from 'vitest'
import { outbox, waitingMax } from './outbox.ts'

const session = 'ses_0000000000000001' as SessionId

/** A device, and a daemon that takes each key once, however often it comes. */
function world() {
  const kept = new Map<string, string>()
  const taken = new Map<string, { id: string; text: string }>()
  let keys = 0
  const later: (() => void)[] = []
  const state = { answers: 'well' as 'well' | 'not at all' | 'too late' | 'no' | 'never', room: Infinity }
  const tab = () =>
    outbox({
      storage: {
        getItem: (key) => kept.get(key) ?? null,
        setItem(key, value) {
          if (value.length > state.room) throw new DOMException('full', 'QuotaExceededError')
          kept.set(key, value)
        },
      },
      async send(_, { text, idempotency_key: key = '' }, signal) {
        if (state.answers === 'never')
          return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(new TypeError('aborted'))))
        if (state.answers === 'not at all') throw new TypeError('Failed to fetch')
        if (state.answers === 'no') throw new Error('refused')
        const known = taken.get(key) ?? { id: `prm_${taken.size}`, text }
        taken.set(key, known)
        if (state.answers === 'too late') throw new TypeError('Failed to fetch')
        return { id: known.id }
      },
      isUnreachable: (error) => error instanceof TypeError,
      wordsOf: (error) => String(error),
      newKey: () => `key ${++keys}`,
      now: () => 0,
      later: (again) => void later.push(again),
    })
  return { tab, taken, state, kept, later }
}

test('outbox() keeps a prompt until the log shows it, and sends it once', async () => {
  const { tab, taken, state } = world()
  const one = tab()
  state.answers = 'too late'
  one.add(session, 'first', 'steer')
  one.add(session, 'second', 'queue')
  await one.sendAll()
  expect(one.list().map(({ id }) => id)).toEqual([null, null])
  // The page is closed and opened again; the daemon answers now.
  const two = tab()
  state.answers = 'well'
  await two.sendAll()
  await two.sendAll()
  expect([...taken.values()].map(({ text }) => text)).toEqual(['first', 'second'])
  // What shows them may lie before the place at which this page begins to listen.
  expect(two.list()).toEqual([])
  two.add(session, 'third', 'steer')
  two.add(session, 'fourth', 'steer')
  await two.sendAll()
  expect(two.list().map(({ id }) => id)).toEqual(['prm_2', 'prm_3'])
  two.seen(new Set(['prm_2']))
  expect(two.list().map(({ text }) => text)).toEqual(['fourth'])
  // It was acknowledged, and the page was closed before the log showed it.
  expect(tab().list()).toEqual([])
})

test('outbox() lets no prompt overtake one that could not be sent', async () => {
  const { tab, taken, state } = world()
  const one = tab()
  state.answers = 'not at all'
  for (const text of ['a', 'b', 'c']) one.add(session, text, 'steer')
  await one.sendAll()
  expect(taken.size).toBe(0)
  state.answers = 'well'
  await one.sendAll()
  expect([...taken.values()].map(({ text }) => text)).toEqual(['a', 'b', 'c'])
})

test('outbox() of two tabs loses nothing and sends nothing twice', async () => {
  const { tab, taken, state } = world()
  state.answers = 'not at all'
  const [one, two] = [tab(), tab()]
  one.add(session, 'from one', 'steer')
  two.add(session, 'from two', 'steer')
  await Promise.all([one.sendAll(), two.sendAll()])
  one.reread()
  two.reread()
  expect(one.list().map(({ text }) => text)).toEqual(['from one', 'from two'])
  state.answers = 'well'
  await Promise.all([one.sendAll(), two.sendAll()])
  expect([...taken.values()].map(({ text }) => text)).toEqual(['from one', 'from two'])
})

test('outbox() says why a prompt was refused, and sends it again or forgets it when it is told to', async () => {
  const { tab, taken, state } = world()
  const one = tab()
  state.answers = 'no'
  one.add(session, 'a', 'steer')
  await one.sendAll()
  const [refused] = one.list()
  expect(refused).toMatchObject({ refused: 'Error: refused' })
  state.answers = 'well'
  await one.retry(refused!.key)
  expect(taken.size).toBe(1)
  one.discard(refused!.key)
  expect(one.list()).toEqual([])
})

test('outbox() begins empty when what is stored is not its own', () => {
  const { tab, kept } = world()
  kept.set('anchorhold.outbox', '{"half')
  expect(tab().list()).toEqual([])
})

test('outbox() lets go of a prompt that the log showed before the daemon had answered', async () => {
  const { tab, taken, state } = world()
  const one = tab()
  state.answers = 'too late'
  one.add(session, 'first', 'steer')
  await one.sendAll()
  one.seen(new Set([...taken.values()].map(({ id }) => id)))
  expect(one.list()).toHaveLength(1)
  state.answers = 'well'
  await one.sendAll()
  expect(one.list()).toEqual([])
  expect(taken.size).toBe(1)
})

test('outbox() begins anew when it is asked to while a send that fails is under way, and by itself after a while', async () => {
  const { tab, taken, state, later } = world()
  const one = tab()
  state.answers = 'not at all'
  one.add(session, 'a', 'steer')
  // The connection is back before the failure of the first try is heard.
  state.answers = 'well'
  await one.sendAll()
  expect([...taken.values()].map(({ text }) => text)).toEqual(['a'])
  state.answers = 'not at all'
  one.add(session, 'b', 'steer')
  await one.sendAll()
  state.answers = 'well'
  later.at(-1)!()
  await one.sendAll()
  expect([...taken.values()].map(({ text }) => text)).toEqual(['a', 'b'])
})

test('outbox() sends anew what is under way on a connection that is gone', async () => {
  const { tab, taken, state, later } = world()
  const one = tab()
  state.answers = 'never'
  one.add(session, 'a', 'steer')
  one.add(session, 'b', 'steer')
  state.answers = 'well'
  await one.sendAnew()
  expect([...taken.values()].map(({ text }) => text)).toEqual(['a', 'b'])
  expect(later).toEqual([])
})

test('outbox() sends from memory what a full device has no room for, once, and says that it is not kept', async () => {
  const { tab, taken, state, kept } = world()
  const one = tab()
  state.answers = 'not at all'
  one.add(session, 'kept', 'steer')
  state.room = kept.get('anchorhold.outbox')!.length
  one.add(session, 'in memory', 'steer')
  await one.sendAll()
  expect(one.list().map(({ text, key }) => [text, one.isKept(key)])).toEqual([
    ['kept', true],
    ['in memory', false],
  ])
  state.answers = 'well'
  await one.sendAll()
  await one.sendAll()
  expect([...taken.values()].map(({ text }) => text)).toEqual(['kept', 'in memory'])
  one.seen(new Set(['prm_0', 'prm_1']))
  expect(one.list()).toEqual([])
  expect(tab().list()).toEqual([])
})

test('outbox() keeps what another tab has stored beside what it has no room for itself, and stores both when there is room', async () => {
  const { tab, state, kept } = world()
  state.answers = 'not at all'
  const [one, two] = [tab(), tab()]
  state.room = 0
  one.add(session, 'from one', 'steer')
  state.room = Infinity
  two.add(session, 'from two', 'steer')
  one.reread()
  expect(one.list().map(({ text }) => text)).toEqual(['from two', 'from one'])
  one.add(session, 'more', 'steer')
  expect(
    tab()
      .list()
      .map(({ text }) => text),
  ).toEqual(['from two', 'from one', 'more'])
  expect(one.list().every(({ key }) => one.isKept(key))).toBe(true)
  kept.clear()
  state.room = 0
  one.add(session, 'not for others', 'steer')
  one.letGo()
  expect(one.list()).toEqual([])
  await one.sendAll()
})

test('outbox() takes no more when too many wait, and gives none of them up', () => {
  const { tab, state } = world()
  const one = tab()
  state.answers = 'not at all'
  for (let n = 1; n <= waitingMax; n++) expect(one.add(session, String(n), 'steer')).toBe(true)
  expect(one.add(session, 'one more', 'steer')).toBe(false)
  expect([one.list().length, one.list()[0]?.text, one.list().at(-1)?.text]).toEqual([waitingMax, '1', String(waitingMax)])
})

test('outbox() sends what is written in the very moment in which it has sent all', async () => {
  for (const moments of Array(20).keys()) {
    const { tab, taken } = world()
    const one = tab()
    one.add(session, 'first', 'steer')
    for (let moment = 0; moment < moments; moment++) await Promise.resolve()
    one.add(session, 'second', 'steer')
    await new Promise((resolve) => setTimeout(resolve))
    expect(
      [...taken.values()].map(({ text }) => text),
      `${moments} moments later`,
    ).toEqual(['first', 'second'])
  }
})
