import { appendFileSync, closeSync, mkdtempSync, openSync, readFileSync, rmSync, statSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { boundLogs } from './logs.ts'

test('boundLogs() keeps a log that is being written to within bounds, and its newest lines', () => {
  const folder = mkdtempSync(join(tmpdir(), 'ah-logs-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const [busy, small, none] = ['busy', 'small', 'none'].map((name) => join(folder, name)) as [string, string, string]
  appendFileSync(small, 'one line\n')
  // As a process has it that was started with it.
  const held = openSync(busy, 'a', 0o600)
  for (let line = 0; line < 1000; line++) {
    writeSync(held, `line ${line}\n`)
    if (line % 10 === 0) boundLogs([busy, small, none], 1000)
  }
  closeSync(held)
  const whole = readFileSync(`${busy}.1`, 'utf8') + readFileSync(busy, 'utf8')
  expect(Buffer.byteLength(whole)).toBeLessThan(3000)
  expect(whole).not.toContain('\0')
  const lines = whole.trimEnd().split('\n')
  expect(lines).toEqual(lines.map((_, index) => `line ${1000 - lines.length + index}`))
  expect(lines.length).toBeGreaterThan(90)
  expect(statSync(`${busy}.1`).mode & 0o777).toBe(0o600)
  expect(readFileSync(small, 'utf8')).toBe('one line\n')
})
