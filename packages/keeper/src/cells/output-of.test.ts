import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import type { CellProcess } from './cell.ts'
import { outputOf } from './output-of.ts'

/** A process that ends only when `exited` does, whatever it is sent. */
function pretended(exited: Promise<number> = new Promise(() => {})) {
  const signals: string[] = []
  const [stdout, stderr] = [new PassThrough(), new PassThrough()]
  const kill = (signal: string) => (signals.push(signal), true)
  const process: CellProcess = { stdin: new PassThrough(), stdout, stderr, exitCode: null, killed: false, kill, exited }
  return { process, stdout, stderr, signals }
}
const bounds = { bytesMax: 1000, withinMs: 60_000 }

test('outputOf() gives what a process said, with its exit code', async () => {
  const { process, stdout, stderr, signals } = pretended(Promise.resolve(3))
  stderr.end('x'.repeat(1_000_000))
  stdout.write(Buffer.from('ä').subarray(0, 1))
  stdout.end(Buffer.from('ä').subarray(1))
  expect([await outputOf(process, bounds), signals]).toEqual([{ text: 'ä', code: 3 }, []])
})

test('outputOf() ends a process that says more than it may, and does not hear it out', async () => {
  const { process, stdout, signals } = pretended()
  const said = outputOf(process, bounds)
  stdout.write('x'.repeat(1001))
  await expect(said).rejects.toThrow('more than it can have to say')
  expect([signals, stdout.destroyed]).toEqual([['SIGKILL'], true])
})

test.each([
  ['says nothing', () => {}],
  ['never exits', (stdout: PassThrough) => void stdout.end()],
])('outputOf() does not wait for a process that %s, also when it cannot be killed', async (_, does) => {
  const { process, stdout, signals } = pretended()
  does(stdout)
  await expect(outputOf(process, { bytesMax: 1000, withinMs: 20 })).rejects.toThrow('longer than')
  expect(signals).toEqual(['SIGKILL'])
})
