import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, test } from 'vitest'

/** Keeps Ctrl-C; told anything, hears what came. */
const program = `
  import { keepInterrupts } from ${JSON.stringify(new URL('interrupts.ts', import.meta.url).href)}
  const interrupts = keepInterrupts()
  process.once('SIGINT', () => console.log('came'))
  process.stdin.on('data', () => { interrupts.hear(() => console.log('heard')); console.log('hears') })
  console.log('keeps')`

async function keeping() {
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: ['pipe', 'pipe', 'inherit'] })
  const lines: string[] = []
  child.stdout.setEncoding('utf8').on('data', (text: string) => lines.push(...text.trim().split('\n')))
  const said = async (count: number) => {
    while (lines.length < count) await once(child.stdout, 'data')
    return lines
  }
  await said(1)
  return { child, said, [Symbol.dispose]: () => void child.kill('SIGKILL') }
}

test('what comes before anybody hears it is heard then, and so is what comes after', async () => {
  using one = await keeping()
  one.child.kill('SIGINT')
  await one.said(2)
  one.child.stdin.write('now')
  await one.said(4)
  one.child.kill('SIGINT')
  expect(await one.said(5)).toEqual(['keeps', 'came', 'heard', 'hears', 'heard'])
})

test('a second one that nobody hears ends the process', async () => {
  using one = await keeping()
  one.child.kill('SIGINT')
  await one.said(2)
  const ended = once(one.child, 'exit')
  one.child.kill('SIGINT')
  expect(await ended).toEqual([null, 'SIGINT'])
})
