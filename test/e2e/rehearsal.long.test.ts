import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { processesOf } from './host.ts'
import { type Installation, installation, isRoot, script, textOf, until } from './installation.ts'

let it: Installation
beforeAll(async () => (it = await installation()))
afterAll(() => it[Symbol.asyncDispose]())

const demos = () => processesOf(it.state, ({ argv }) => argv.includes('/rehearsal.mjs')).map(({ pid }) => pid)
const uidOf = (pid: number) => Number(/^Uid:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1])

test('the demo model is a process of its own, which a session starts and the house ends', async () => {
  expect(demos()).toEqual([])
  const { session, events } = await it.run('say one')
  expect(textOf(events)).toContain('one')
  const [first, ...others] = demos()
  expect(others).toEqual([])
  // As root it is nobody whom the house knows: not root, not the gate, not a session.
  if (isRoot) expect(uidOf(first!)).toBe(1_899_999_999)
  process.kill(first!, 'SIGKILL')
  // The agent tries again until the next one stands.
  expect(textOf(await it.turn(session.id, 'say two'))).toContain('two')
  expect(demos()).not.toContain(first)
})

test('a daemon that is killed leaves the demo model to the sessions that call it', async () => {
  const workspace = it.workspace()
  const { id } = await it.api.createSession({
    body: { workspace, prompt: { text: script([{ text: 'begin' }, { delay_ms: 3000 }, { text: ' and end' }]) } },
  })
  const demo = await until(() => demos()[0])
  await until(async () => (await it.log(id)).some(({ type }) => type === 'prompt'))
  const { pid } = await it.api.status()
  process.kill(pid, 'SIGKILL')
  await it.up()
  await it.event(id, 0, ({ type }) => type === 'turn.ended')
  expect(textOf(await it.log(id))).toContain('begin and end')
  expect(demos()).toEqual([demo])
})

test('the demo model ends with the house, and with whoever needed it', async () => {
  expect(demos()).toHaveLength(1)
  await it.cli(['down', '--all'])
  await until(() => processesOf(it.state).length === 0)
  await it.up()
  const { session } = await it.run('say three')
  const all = processesOf(it.state).map(({ pid }) => pid)
  for (const pid of all) process.kill(pid, 'SIGKILL')
  await until(() => processesOf(it.state).length === 0)
  await it.up()
  expect(textOf(await it.turn(session.id, 'say four'))).toContain('four')
})

test('a cell finds neither the socket of the demo model nor its folder', async () => {
  const { events } = await it.run(`run \`ls ${join(it.state, 'rehearsal')}; echo looked\``)
  const said = textOf(events)
  expect(said).toContain('looked')
  expect(said).not.toContain('api.sock')
})
