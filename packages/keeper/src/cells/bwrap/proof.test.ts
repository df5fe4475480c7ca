import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import { lastLine, readReport } from './proof.ts'

const last = `${lastLine}\n`
const streams = () => ({ stdout: new PassThrough(), stderr: new PassThrough() })

describe('readReport()', () => {
  test('has all of a report before the process that wrote it is gone, and leaves what it writes next', async () => {
    const { stdout, stderr } = streams()
    stdout.write(`Name:\tcat\n${last.slice(0, 4)}`)
    const read = readReport({ stdout, stderr })
    stdout.write(last.slice(4))
    expect(await read).toEqual({ report: `Name:\tcat\n${last}`, isWhole: true, said: '' })
    const heard = new Promise((resolve) => stdout.once('data', (piece) => resolve(String(piece))))
    stdout.write('what it does now')
    expect(await heard).toBe('what it does now')
    stderr.end('and says')
    expect(await text(stderr)).toBe('and says')
  })

  test('takes a report that stops before its last line for what it is, and has all that was said of it', async () => {
    const { stdout, stderr } = streams()
    const read = readReport({ stdout, stderr })
    stdout.end(`Name:\tcat\n${last.slice(0, -1)}`)
    stderr.write('it did ')
    stderr.end('not work')
    expect(await read).toEqual({ report: `Name:\tcat\n${last.slice(0, -1)}`, isWhole: false, said: 'it did not work' })
  })
})
