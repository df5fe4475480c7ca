import { PassThrough } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { readReport } from './proof.ts'

const last = 'Max realtime timeout      unlimited            unlimited            us        \n'

describe('readReport()', () => {
  test('has all of a report before the process that wrote it is gone', async () => {
    const stdout = new PassThrough()
    stdout.write('Name:\tcat\nMax realtime ')
    const read = readReport(stdout)
    stdout.write(last.slice('Max realtime '.length))
    expect(await read).toEqual({ report: `Name:\tcat\n${last}`, isWhole: true })
    expect(stdout.writable).toBe(true)
  })

  test('takes a report that stops before its last line for what it is', async () => {
    const stdout = new PassThrough()
    const read = readReport(stdout)
    stdout.end(`Name:\tcat\n${last.slice(0, -1)}`)
    expect(await read).toEqual({ report: `Name:\tcat\n${last.slice(0, -1)}`, isWhole: false })
  })
})
