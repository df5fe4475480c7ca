import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { keepersOf, processesOf, stillAlive } from './host.ts'
import { type Installation, installation, outputsOf, until } from './installation.ts'

let it: Installation
beforeAll(async () => {
  it = await installation({ config: 'spare_keeper: false\npools:\n  bwrap: { min: 1, max: 2, idle_seconds: 600 }\n' })
})
afterAll(() => it[Symbol.asyncDispose]())

const waiting = () => until(async () => (await it.api.workers()).workers.find(({ sessions }) => sessions === 0))

test('a new session takes a place whose cell stands already, and another one is made ready', async () => {
  const place = await waiting()
  expect(place).toMatchObject({ status: 'idle', rung: 'bwrap', requests: 0 })
  const { session, events } = await it.run('run `pwd; echo here > made.txt`')
  expect(session.id).toBe(place.session)
  expect(outputsOf(events)).toContain('/workspace')
  expect(existsSync(join(session.workspace, 'made.txt'))).toBe(true)
  const { workers } = await it.api.workers()
  expect(workers.find((one) => one.session === session.id)).toMatchObject({ status: 'idle', sessions: 1, errors: 0 })
  expect(workers.find((one) => one.session === session.id)!.requests).toBeGreaterThan(0)
  expect((await waiting()).session).not.toBe(session.id)
  expect(await it.cli(['workers'])).toMatchObject({ code: 0, out: expect.stringContaining('waits for a session') as string })
  await it.api.archive({ params: { id: session.id } })
})

test('one that asks for a folder of its own does without', async () => {
  const place = await waiting()
  const { session } = await it.run('say hello', { workspace: it.workspace() })
  expect(session.id).not.toBe(place.session)
  await it.api.archive({ params: { id: session.id } })
})

test('a daemon that was killed takes waiting places along, and the next one clears away what is left of them', async () => {
  const place = await waiting()
  // What somebody else made is not ours to remove, and what a database knew that is no more may be work.
  mkdirSync(join(it.state, 'sessions/not-ours'))
  const ghosts = ['ses_00000000000000gh', 'ses_00000000000000gk']
  for (const each of ghosts) {
    mkdirSync(join(it.state, 'sessions', each, 'cell'), { recursive: true })
    writeFileSync(join(it.state, 'sessions', each, 'cell/left'), 'x')
  }
  const [ghost, old] = ghosts.map((each) => join(it.state, 'sessions', each))
  writeFileSync(join(it.state, 'unsettled', ghosts[0]!), '')
  const before = processesOf(it.state, ({ argv }) => argv.includes('/keeper.mjs'))
  process.kill((await it.api.status()).pid, 'SIGKILL')
  await until(() => stillAlive(before).length === 0)
  await it.up()
  await until(() => !readdirSync(join(it.state, 'sessions')).includes(place.session) && !existsSync(ghost!))
  expect(readdirSync(join(it.state, 'sessions'))).toContain('not-ours')
  expect(existsSync(join(old!, 'cell/left'))).toBe(true)
  expect(keepersOf(it.state, place.session)).toEqual([])
})
