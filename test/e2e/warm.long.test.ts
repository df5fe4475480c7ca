import type { SessionId } from '@anchorhold/protocol/ids'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sessionsOf } from './both-doors.ts'
import { keepersOf, stillAlive } from './host.ts'
import { type Installation, installation, textOf, until } from './installation.ts'

let it: Installation
beforeAll(async () => {
  it = await installation({ config: 'warm_seconds: 10' })
})
afterAll(async () => {
  await it[Symbol.asyncDispose]()
})
const { session, last } = sessionsOf(() => it)

/** A session with a past and without a process. */
async function resting(): Promise<SessionId> {
  const { session: one } = await it.run('say the herring flies')
  await it.api.stop({ params: { id: one.id } })
  await it.api.start({ params: { id: one.id } })
  expect(keepersOf(it.state, one.id)).toEqual([])
  return one.id
}
const started = (id: SessionId, after: number) => it.event(id, after, ({ type }) => type === 'keeper.started')

test('a session that was warmed up takes the prompt that comes', async () => {
  const id = await resting()
  const before = await last(id)
  expect(await it.api.warm({ params: { id } })).toMatchObject({ id, state: 'ready' })
  const { seq } = await started(id, before)
  const warm = keepersOf(it.state, id)
  expect(warm.length).toBeGreaterThan(1)
  // However often it is asked for, there is one.
  await it.api.warm({ params: { id } })
  expect(textOf(await it.turn(id, 'what did I ask you'))).toContain('the herring flies')
  expect(stillAlive(warm.slice(0, 1))).toHaveLength(1)
  expect((await it.log(id)).filter((event) => event.type === 'keeper.started' && event.seq > seq)).toEqual([])
})

test('a session that was warmed up for nothing is let go, and nothing of it is left running', async () => {
  const id = await resting()
  const before = await last(id)
  await it.api.warm({ params: { id } })
  await started(id, before)
  const warm = keepersOf(it.state, id)
  await it.event(id, before, ({ type }) => type === 'keeper.left')
  await until(() => stillAlive(warm).length === 0)
  expect(keepersOf(it.state, id)).toEqual([])
  expect(await session(id)).toMatchObject({ state: 'ready', turns: 1 })
})

test('a stopped session is not warmed up', async () => {
  const id = await resting()
  await it.api.stop({ params: { id } })
  await expect(it.api.warm({ params: { id } })).rejects.toThrow('it is stopped')
  expect(keepersOf(it.state, id)).toEqual([])
})
