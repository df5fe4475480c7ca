import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { processesOf } from './host.ts'
import { installation, textOf, until } from './installation.ts'

test('a gate that hangs is replaced, found by this daemon or by the next; the turn goes on and every call is booked once', async () => {
  await using it = await installation()
  const workspace = it.workspace()
  const prompt = { text: 'run `until [ -e go ]; do sleep 0.02; done` then say through a new gate' }
  const { id } = await it.api.createSession({ body: { workspace, prompt } })
  await it.event(id, 0, ({ type }) => type === 'tool.started')
  const gates = () => processesOf(it.state, ({ argv }) => argv.includes('/gate.mjs')).map(({ pid }) => pid)
  const [first] = gates()
  process.kill(first!, 'SIGSTOP')
  writeFileSync(join(workspace, 'go'), '')
  expect(await it.event(id, 0, ({ type }) => type === 'turn.ended')).toMatchObject({ body: { reason: 'done' } })
  expect(gates()).not.toContain(first)
  const [second] = gates()
  const { pid } = await it.api.status()
  process.kill(second!, 'SIGSTOP')
  process.kill(pid, 'SIGKILL')
  await until(() => processesOf(it.state).every((one) => one.pid !== pid))
  await it.up()
  expect(textOf(await it.turn(id, 'say after the second'))).toContain('after the second')
  expect(gates()).not.toContain(second)
  const log = await it.log(id)
  expect(log.map(({ seq }) => seq)).toEqual(log.map((_, index) => index + 1))
  const calls = log.flatMap((event) => (event.type === 'usage' ? [event.body] : []))
  expect(new Set(calls.map(({ call }) => call)).size).toBe(calls.length)
  const nanos = calls.reduce((sum, { cost_nanos }) => sum + cost_nanos, 0)
  expect(await it.api.getSession({ params: { id } })).toMatchObject({ cost_micros: Math.ceil(nanos / 1000) })
}, 120_000)
