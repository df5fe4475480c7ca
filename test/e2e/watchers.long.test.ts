import type { Event } from '@anchorhold/protocol/events'
import { request } from 'node:http'
import { expect, test } from 'vitest'
import { installation, script, textOf, until } from './installation.ts'

test('three watchers that come and go see the same, and one that reads nothing delays nobody', async () => {
  await using it = await installation()
  const words = Array.from({ length: 400 }, (_, i) => `word${i}`).join(' ')
  const { id } = await it.api.createSession({ body: {} })
  const stalled = request(`${it.url}/api/v1/sessions/${id}/events?after=0`, {
    headers: { authorization: `Bearer ${it.token}`, accept: 'text/event-stream' },
  })
  const answered = new Promise((resolve) => stalled.once('response', (response) => resolve(response.pause())))
  stalled.on('error', () => {})
  stalled.end()
  await answered

  const turns = 3
  let over = false
  /** Leaves after so many things it saw, and comes back where it left off. */
  async function watch(patience: () => number) {
    const events: Event[] = []
    const said = new Map<string, string>()
    let gaps = 0
    while (!over || events.at(-1)?.seq !== (await it.api.getSession({ params: { id } })).last_seq) {
      let left = patience()
      const end = AbortSignal.timeout(2000)
      await it
        .follow(
          id,
          events.at(-1)?.seq ?? 0,
          ({ event, live }) => {
            if (event !== undefined) events.push(event)
            if (live?.type === 'text.delta') {
              const before = said.get(live.block) ?? ''
              if (live.offset > before.length) gaps++
              said.set(live.block, before.slice(0, live.offset) + live.text)
            }
            return --left <= 0
          },
          end,
        )
        .catch(() => {})
    }
    return { events, said, gaps }
  }
  const watchers = [() => 1 + Math.floor(Math.random() * 40), () => 7, () => 1 + Math.floor(Math.random() * 300)].map(watch)
  for (let turn = 0; turn < turns; turn++) {
    const events = await it.turn(
      id,
      script(
        [
          { text: words, pace_ms: 2 },
          { tool_use: 'Bash', input: { command: 'echo hi' } },
        ],
        { text: 'end' },
      ),
    )
    expect(events.at(-1)).toMatchObject({ type: 'turn.ended', body: { reason: 'done' } })
  }
  over = true
  const log = await it.log(id)
  for (const { events, said, gaps } of await Promise.all(watchers)) {
    expect(events).toEqual(log)
    expect(gaps).toBe(0)
    const stored = new Map(log.flatMap((event) => (event.type === 'text' ? [[event.body.block, event.body.text]] : [])))
    for (const [block, text] of said) expect(stored.get(block)?.startsWith(text)).toBe(true)
  }
  expect(textOf(log)).toContain('word399')
  expect(stalled.destroyed).toBe(false)
  stalled.destroy()
  await until(() => stalled.closed)
})
