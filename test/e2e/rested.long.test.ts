import { lstatSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { keepersOf } from './host.ts'
import { installation, script, until } from './installation.ts'

const restedBytesMax = 64 * 1024

/** What a tree takes up on the disk, by file. */
function sizes(path: string, without: readonly string[]): [string, number][] {
  return readdirSync(path, { withFileTypes: true }).flatMap((entry): [string, number][] => {
    const at = join(path, entry.name)
    if (without.includes(at)) return []
    const own: [string, number] = [at, lstatSync(at).blocks * 512]
    return entry.isDirectory() ? [own, ...sizes(at, without)] : [own]
  })
}

test('a session that rests takes up hardly anything beside its workspace and its home, whatever it has done', async () => {
  await using it = await installation({ config: 'idle_seconds: 1\n' })
  const tool = (command: string) => ({ tool_use: 'Bash', input: { command } })
  const task = script(
    tool(`head -c 60000 /dev/urandom | base64`),
    tool(`head -c 60000 /dev/urandom | base64`),
    [{ text: 'word '.repeat(2000) }, tool(`head -c 20000 /dev/urandom | base64`)],
    { text: 'the end' },
  )
  for (const network of ['none', 'proxy_only'] as const) {
    const { session } = await it.run(task, { network, tools: ['Bash'] })
    await it.event(session.id, 0, ({ type }) => type === 'keeper.left')
    await until(() => keepersOf(it.state, session.id).length === 0)
    const folder = join(it.state, 'sessions', session.id)
    const files = sizes(folder, [join(folder, 'workspace'), join(folder, 'home')])
    const bytes = files.reduce((sum, [, size]) => sum + size, 0)
    expect({ network, tooLarge: bytes <= restedBytesMax ? [] : files }).toEqual({ network, tooLarge: [] })
  }
})
