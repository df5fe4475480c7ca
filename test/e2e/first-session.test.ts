import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Installation, installation } from './installation.ts'

let it: Installation
beforeAll(async () => {
  it = await installation()
})
afterAll(() => it[Symbol.asyncDispose]())

test('anchorhold run does what it is told in a cell, with no key, and ends with code 0', async () => {
  const workspace = it.workspace()
  const { code, out } = await it.cli(['run', '--workspace', workspace, 'create hello.txt saying hi, then run cat hello.txt'])
  expect(out).toContain('✓ done')
  expect(code).toBe(0)
  const made = join(workspace, 'hello.txt')
  expect(readFileSync(made, 'utf8').trim()).toBe('hi')
  expect(statSync(made).uid).toBe(statSync(workspace).uid)
  const { sessions } = await it.api.listSessions()
  const events = await it.log(sessions[0]!.id)
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1))
  expect(sessions[0]).toMatchObject({ state: 'ready', rung: 'bwrap', simulated: true, turns: 1 })
})

test('anchorhold run --json prints one numbered event a line, and text streams before its block is stored', async () => {
  const { code, out } = await it.cli(['run', '--json', 'say hello'])
  expect(code).toBe(0)
  const events = out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { seq: number; type: string })
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1))
  expect(events.at(-1)?.type).toBe('turn.ended')

  const session = await it.api.createSession({ body: { prompt: { text: 'count slowly to 5' } } })
  const seen = await it.follow(session.id, 0, ({ event }) => event?.type === 'turn.ended')
  const first = seen.find(({ live }) => live?.type === 'text.delta')
  const block = first?.live?.type === 'text.delta' ? first.live.block : ''
  const deltas = seen.flatMap(({ live }) => (live?.type === 'text.delta' && live.block === block ? [live] : []))
  const stored = seen.find(({ event }) => event?.type === 'text' && event.body.block === block)
  expect(deltas.length).toBeGreaterThan(1)
  expect(seen.indexOf(stored!)).toBeGreaterThan(seen.indexOf(first!))
  expect(deltas.map(({ text }) => text).join('')).toBe(stored?.event?.type === 'text' ? stored.event.body.text : null)
})
