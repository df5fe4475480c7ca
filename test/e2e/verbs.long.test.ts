import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { bothDoors, ended, held, letGo, reason, types, sessionsOf } from './both-doors.ts'
import { keepersOf, stillAlive } from './host.ts'
import { type Installation, installation, outputsOf, textOf, until } from './installation.ts'

let it: Installation
beforeAll(async () => {
  it = await installation()
})
afterAll(async () => {
  await it[Symbol.asyncDispose]()
})

const { cli, http, ok } = bothDoors(() => it)
const doors = [cli, http] as const
const { busy, meanwhile, session, archiveAll } = sessionsOf(() => it)
afterEach(archiveAll)

describe.each(doors)('by $name', (door) => {
  test('stop ends the cell and keeps the conversation; fork goes on from it in a copy', async () => {
    const { id, workspace } = await busy(door)
    const cell = keepersOf(it.state, id)
    expect(cell.length).toBeGreaterThan(2)
    await door.verb('stop', id)
    expect(await session(id)).toMatchObject({ state: 'stopped' })
    await until(() => stillAlive(cell).length === 0)
    expect((await it.log(id)).filter(ended).map(reason)).toEqual(['interrupted'])
    await expect(door.send(id, 'say no')).rejects.toThrow('it is stopped')
    await door.verb('start', id)
    letGo(workspace)
    const recall = await it.turn(id, 'what did I ask you')
    expect(textOf(recall), JSON.stringify(recall)).toContain(held)

    const fork = await door.fork(id)
    expect(await session(fork)).toMatchObject({ state: 'ready', forked_from: id })
    const recalled = await it.turn(fork, 'what did I ask you, then run `ls` and create only-in-fork saying x')
    expect(textOf(recalled)).toContain(held)
    expect(outputsOf(recalled)).toContain('go')
    expect(existsSync(join(workspace, 'only-in-fork'))).toBe(false)
    expect(textOf(await it.turn(id, 'what did I ask you'))).not.toContain('only-in-fork')
  })

  test('an archived session is read-only, and purged only on confirmation', async () => {
    const id = await door.create({ prompt: { text: 'say farewell' }, name: 'short-lived' })
    await it.event(id, 0, ended)
    expect(await door.purge(id, id)).toBe(false)
    await door.verb('archive', id)
    expect(await session(id)).toMatchObject({ state: 'archived' })
    expect((await it.api.listSessions()).sessions.map((one) => one.id)).not.toContain(id)
    expect(await ok(['ls', '--archived'])).toContain(id)
    await expect(door.send(id, 'say no')).rejects.toThrow('it is archived')
    await expect(door.verb('start', id)).rejects.toThrow('it is archived')
    expect(textOf(await it.log(id))).toContain('farewell')
    expect(await ok(['watch', id])).toMatch(/farewell[\s\S]*archived/)
    expect(await ok(['watch', '--after', String((await it.log(id)).at(-1)!.seq), id])).toBe('')
    expect(await door.purge(id, 'ses_0000000000000000')).toBe(false)
    expect(existsSync(join(it.state, 'sessions', id))).toBe(true)
    expect(await door.purge(id, id)).toBe(true)
    await expect(session(id)).rejects.toThrow('There is no session')
    expect(existsSync(join(it.state, 'sessions', id))).toBe(false)
    expect((await it.api.search({ query: { q: 'farewell' } })).hits.filter((hit) => hit.session === id)).toEqual([])
  })

  test('search, usage, model, budget and name', async () => {
    const id = await door.create({ prompt: { text: 'run `echo xylophone-$((40 + 2))`' }, name: 'a named one' })
    await it.event(id, 0, ended)
    const found = await door.search('xylophone-42', id)
    expect(found).toContain('«xylophone')
    expect(found).toContain('tool.finished')
    expect(await door.search('glockenspiel', id)).not.toContain('«')
    const { simulated, calls } = await door.usage(id)
    expect(simulated).toBe((await it.log(id)).filter(({ type }) => type === 'usage').length)
    expect(calls).toBe(0)
    expect(await session(id)).toMatchObject({ name: 'a named one', simulated: true })

    await door.model(id, 'rehearsal-2')
    const changed = await it.turn(id, 'say changed')
    expect(changed.find(({ type }) => type === 'usage')).toMatchObject({ body: { model: 'rehearsal-2' } })

    await door.budget(id, '0.000001')
    const refused = await it.turn(id, 'run `touch must-not-be`')
    expect(reason(refused.findLast(ended)!)).toBe('budget')
    expect(types(refused, 'tool.started', 'usage')).toEqual([])
    await door.budget(id, null)
    expect(reason((await it.turn(id, 'say paid')).findLast(ended)!)).toBe('done')
  })
})

test.each(doors)('panic by $name stops every session and leaves no process of theirs', async (door) => {
  const ids = await Promise.all([busy(door), busy(door)]).then((all) => all.map(({ id }) => id))
  const { session: rests } = await it.run('say the herring flies')
  // One that is only being set up must not escape.
  ids.push((await it.api.createSession({ body: { prompt: { text: `run \`${held}\`` } } })).id)
  const before = keepersOf(it.state)
  expect(await door.panic()).toBeGreaterThanOrEqual(3)
  for (const id of [...ids, rests.id])
    expect(await session(id)).toMatchObject({ state: 'stopped', why: expect.stringContaining('Panic') as string })
  await until(() => stillAlive(before).length === 0)
  await expect(meanwhile()).rejects.toThrow('nothing runs until that is lifted')
  // Once it is lifted, each can be started again by hand, and none starts by itself.
  expect(await it.api.liftPanic()).toEqual({ lifted: true })
  await meanwhile()
  for (const id of ids) expect(await session(id)).toMatchObject({ state: 'stopped' })
  expect((await it.api.status()).keepers).toBe(1)
  await door.verb('start', rests.id)
  expect(textOf(await it.turn(rests.id, 'what did I ask you'))).toContain('the herring flies')
})
