import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { keepersOf } from './host.ts'
import { installation, outputsOf, script, textOf, until } from './installation.ts'

test(
  'twenty live sessions at once all finish; when they rest, no process and no socket of theirs is left',
  { timeout: 240_000 },
  async () => {
    await using it = await installation({ config: 'idle_seconds: 1\n' })
    const task = (name: string) =>
      script(
        [
          { text: 'word '.repeat(50), pace_ms: 5 },
          { tool_use: 'Bash', input: { command: `echo ${name}` } },
        ],
        { text: `${name} is done` },
      )
    const names = Array.from({ length: 20 }, (_, i) => `session-${i}`)
    const sessions = await Promise.all(
      names.map((name) => it.api.createSession({ body: { name, prompt: { text: task(name) } } })),
    )
    for (const { id, name } of sessions) {
      expect(await it.event(id, 0, ({ type }) => type === 'turn.ended')).toMatchObject({ body: { reason: 'done' } })
      const log = await it.log(id)
      expect([outputsOf(log), textOf(log)]).toEqual([expect.stringContaining(name), expect.stringContaining(`${name} is done`)])
      expect(log.map(({ seq }) => seq)).toEqual(log.map((_, index) => index + 1))
    }
    for (const { id } of sessions) await it.event(id, 0, ({ type }) => type === 'keeper.left')
    await until(() => keepersOf(it.state).length === 0)
    for (const { id } of sessions) {
      expect(existsSync(join(it.state, 'sessions', id, 'keeper.sock'))).toBe(false)
      expect(await it.api.getSession({ params: { id } })).toMatchObject({ state: 'ready' })
    }
    await until(() => !existsSync(join(it.state, 'windows')) || readdirSync(join(it.state, 'windows')).length === 0)
  },
)
