import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { endOrphans, mortalMark } from './orphans.ts'

/** The mark of a process that was there and has ended. */
async function markOfTheDead(): Promise<string> {
  const script = `const { mortalMark } = await import(${JSON.stringify(new URL('orphans.ts', import.meta.url).href)}); console.log(mortalMark())`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [[mark]] = await Promise.all([once(child.stdout, 'data'), once(child, 'exit')])
  return String(mark).trim()
}

const carrying = (mark: string) => spawn('sh', ['-c', 'read -r _', mark], { stdio: ['pipe', 'ignore', 'ignore'] })

test('endOrphans() ends what a process left behind that has ended, and nothing whose maker lives', async () => {
  const [left, kept] = [carrying(await markOfTheDead()), carrying(mortalMark())]
  const [ended] = await Promise.all([once(left, 'exit'), endOrphans()])
  expect(ended).toEqual([null, 'SIGKILL'])
  expect([kept.exitCode, kept.signalCode]).toEqual([null, null])
  kept.stdin.end()
  expect((await once(kept, 'exit'))[0]).toBe(1)
})

test('endOrphans() looks anew for who asks while a look is under way', async () => {
  const mark = await markOfTheDead()
  const before = endOrphans()
  const left = carrying(mark)
  const gone = once(left, 'exit')
  await Promise.all([before, endOrphans(), endOrphans()])
  expect(existsSync(`/proc/${left.pid}`) ? readFileSync(`/proc/${left.pid}/cmdline`, 'utf8') : '').toBe('')
  await gone
})
