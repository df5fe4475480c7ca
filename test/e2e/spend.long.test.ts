import type { Event } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { bothDoors, ended, reason, sessionsOf } from './both-doors.ts'
import { processesOf } from './host.ts'
import { type Installation, installation, textOf, until } from './installation.ts'

let it: Installation
beforeAll(async () => {
  it = await installation()
})
afterAll(async () => {
  await it[Symbol.asyncDispose]()
})
const { cli, http } = bothDoors(() => it)
const { request, session, archiveAll, meanwhile } = sessionsOf(() => it)
afterEach(archiveAll)

/** A session that may spend next to nothing, and asks for more. */
async function poor(text: string): Promise<{ readonly id: SessionId; readonly asked: Event & { type: 'request.opened' } }> {
  const { id } = await it.api.createSession({ body: { spend: 'ask', budget_micros: 1, prompt: { text } } })
  return { id, asked: await request(id, 0) }
}
const answers = async (id: SessionId) =>
  (await it.log(id)).flatMap((event) =>
    event.type === 'request.answered' ? [[event.body.answer.decision, event.body.actor]] : [],
  )

describe.each([cli, http])('by $name', (door) => {
  test('a call that the budget does not hold is asked for, and goes on when it is allowed', async () => {
    const { id, asked } = await poor('say paid for')
    expect(await session(id)).toMatchObject({ state: 'waiting', spend: 'ask', open_requests: 1 })
    expect(await door.requests()).toContain(asked.body.id)
    await door.answer(asked.body.id, { allow: null })
    expect(reason(await it.event(id, 0, ended))).toBe('done')
    const log = await it.log(id)
    expect(textOf(log)).toContain('paid for')
    expect(await answers(id)).toEqual([['allow', 'owner']])
    const changed = log.flatMap((event) => (event.type === 'session.changed' ? [event.body.budget_nanos] : []))
    const needed = asked.body.action.kind === 'spend' ? asked.body.action.needed_nanos : 0
    expect(changed).toEqual([needed])
    const { cost_micros, budget_micros } = await session(id)
    expect(cost_micros).toBeGreaterThan(0)
    expect(cost_micros).toBeLessThanOrEqual(budget_micros!)
    await expect(door.answer(asked.body.id, { deny: 'too late' })).rejects.toThrow('already settled')
  })

  test('a call that is denied ends the turn at once, and the agent reads why', async () => {
    const { id, asked } = await poor('say never')
    await door.answer(asked.body.id, { deny: 'the month is over' })
    const end = await it.event(id, 0, ended)
    expect(end.body).toMatchObject({ reason: 'budget', why: expect.stringContaining('the month is over') as string })
    expect((await it.log(id)).filter(({ type }) => type === 'usage')).toEqual([])
    expect(await session(id)).toMatchObject({ state: 'ready', open_requests: 0, budget_micros: 1 })
  })

  test('a raised budget lets it go on, and answers what was asked', async () => {
    const { id, asked } = await poor('say raised')
    await door.budget(id, '5')
    expect(reason(await it.event(id, 0, ended))).toBe('done')
    expect(await answers(id)).toEqual([['allow', 'owner']])
    expect(await it.api.getRequest({ params: { id: asked.body.id } })).toMatchObject({ answer: { decision: 'allow' } })
  })

  test('stop takes it back', async () => {
    const { id } = await poor('say stopped')
    await door.verb('stop', id)
    await until(async () => (await session(id)).open_requests === 0)
    expect(await door.requests()).not.toContain(id)
    expect((await it.log(id)).filter(({ type }) => type === 'usage')).toEqual([])
  })

  test('pause and resume leave it asked; allowed in between it goes on afterwards', async () => {
    const { id, asked } = await poor('say after the pause')
    await door.verb('pause', id)
    await door.answer(asked.body.id, { allow: null })
    await meanwhile()
    expect((await it.log(id)).filter(({ type }) => type === 'usage')).toEqual([])
    await door.verb('resume', id)
    expect(reason(await it.event(id, 0, ended))).toBe('done')
  })
})

test('without being told to ask, a call that the budget does not hold is refused', async () => {
  const { events } = await it.run('say never', { budget_micros: 1 })
  expect(reason(events.findLast(ended)!)).toBe('budget')
  expect(events.filter(({ type }) => type === 'request.opened')).toEqual([])
})

test('a call that waits at a gate which is killed waits at the next one, for the same answer', async () => {
  const { id, asked } = await poor('say by way of a new gate')
  const isGate = ({ argv }: { readonly argv: string }) => argv.includes('/gate.mjs')
  const gate = processesOf(it.state, isGate).find(isGate)
  process.kill(gate!.pid, 'SIGKILL')
  await until(() => processesOf(it.state, isGate).some((one) => isGate(one) && one.pid !== gate!.pid))
  expect((await it.api.listRequests()).requests.map((one) => one.id)).toEqual([asked.body.id])
  await it.api.answerRequest({ params: { id: asked.body.id }, body: { decision: 'allow' } })
  expect(reason(await it.event(id, 0, ended))).toBe('done')
  await until(async () => (await session(id)).state === 'ready')
  const log = await it.log(id)
  expect(textOf(log)).toContain('by way of a new gate')
  expect(log.filter(({ type }) => type === 'request.opened')).toHaveLength(1)
  expect(await answers(id)).toEqual([['allow', 'owner']])
})
