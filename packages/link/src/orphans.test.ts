import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, test } from 'vitest'
import { endOrphans, mortalMark } from './orphans.ts'

/** The mark of a process that was there and has ended. */
async function markOfTheDead(): Promise<string> {
  const script = `const { mortalMark } = await import(${JSON.stringify(new URL('orphans.ts', import.meta.url).href)}); console.log(mortalMark())`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [[mark]] = await Promise.all([once(child.stdout, 'data'), once(child, 'exit')])
  return String(mark).trim()
}

test('endOrphans() ends what a process left behind that has ended, and nothing whose maker lives', async () => {
  const carrying = (mark: string) => spawn('sh', ['-c', 'read -r _', mark], { stdio: ['pipe', 'ignore', 'ignore'] })
  const [left, kept] = [carrying(await markOfTheDead()), carrying(mortalMark())]
  const [ended] = await Promise.all([once(left, 'exit'), endOrphans()])
  expect(ended).toEqual([null, 'SIGKILL'])
  expect([kept.exitCode, kept.signalCode]).toEqual([null, null])
  kept.stdin.end()
  expect((await once(kept, 'exit'))[0]).toBe(1)
})
