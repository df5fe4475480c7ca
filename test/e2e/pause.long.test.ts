import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { bothDoors, ended, letGo, reason, sessionsOf, types } from './both-doors.ts'
import { keepersOf } from './host.ts'
import { type Installation, installation, outputsOf, script } from './installation.ts'

let it: Installation
beforeAll(async () => {
  it = await installation()
})
afterAll(() => it[Symbol.asyncDispose]())

const { cli, http } = bothDoors(() => it)
const { busy, last, meanwhile, session, archiveAll } = sessionsOf(() => it)
afterEach(archiveAll)

describe.each([cli, http])('by $name', (door) => {
  test('while paused no model call and no tool starts; what ran ends; resume goes on', async () => {
    const { id, workspace } = await busy(door, ' then run `touch second`')
    await door.verb('pause', id)
    // What the call before the tool cost may be told after the tool has started.
    await it.event(id, 0, ({ type }) => type === 'usage')
    letGo(workspace)
    const finished = await it.event(id, 0, ({ type }) => type === 'tool.finished')
    await meanwhile()
    const quiet = (await it.log(id)).filter(({ seq }) => seq > finished.seq)
    expect(types(quiet, 'tool.started', 'usage', 'text', 'turn.ended')).toEqual([])
    expect(await session(id)).toMatchObject({ state: 'paused' })
    expect(existsSync(join(workspace, 'second'))).toBe(false)
    await door.verb('resume', id)
    expect(reason(await it.event(id, finished.seq, ended))).toBe('done')
    expect(existsSync(join(workspace, 'second'))).toBe(true)
  })

  test('a pause outlasts the turn that it found, and an interrupted one', async () => {
    const id = await door.create({ prompt: { text: script([{ text: 'one two three four five', pace_ms: 100 }]) } })
    await it.follow(id, 0, ({ live }) => live?.type === 'text.delta')
    await door.verb('pause', id)
    expect(reason(await it.event(id, 0, ended))).toBe('done')
    expect(await session(id)).toMatchObject({ state: 'paused' })
    const before = await last(id)
    await door.send(id, 'run `echo $((6 * 7))`')
    await it.event(id, before, ({ type }) => type === 'turn.started')
    await meanwhile()
    expect(
      types(
        (await it.log(id)).filter(({ seq }) => seq > before),
        'usage',
        'tool.started',
      ),
    ).toEqual([])
    await door.verb('interrupt', id)
    expect(reason(await it.event(id, before, ended))).toBe('interrupted')
    expect(await session(id)).toMatchObject({ state: 'paused' })
    await door.verb('resume', id)
    expect(await session(id)).toMatchObject({ state: 'ready' })
    expect(outputsOf(await it.turn(id, 'run `echo $((6 * 8))`'))).toContain('48')
  })
})

test('what is paused stays paused when its keeper dies, and who resumes it is told that it was cut short', async () => {
  const { id } = await busy(cli)
  await cli.verb('pause', id)
  const before = await last(id)
  process.kill(keepersOf(it.state, id)[0]!.pid, 'SIGKILL')
  await it.event(id, before, ({ type }) => type === 'keeper.lost')
  expect(await session(id)).toMatchObject({ state: 'paused' })
  expect((await it.cli(['resume', id])).out).toBe(`${id} is interrupted: A crash cut it short while it was paused\n`)
})
