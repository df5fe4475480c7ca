import { ProofReport } from '@anchorhold/protocol/proof'
import { readdirSync, rmSync } from 'node:fs'
import { afterAll, expect, test } from 'vitest'
import { command, makeBase, start } from '../e2e/installation.ts'

const scratch = makeBase()
afterAll(() => rmSync(scratch, { recursive: true }))
const anchorhold = (...args: readonly string[]) => start(process.execPath, [command, ...args], '', { TMPDIR: scratch }).ended

test('anchorhold prove attacks the cells of this machine without a daemon, and everything is blocked', async () => {
  const { code, out, err } = await anchorhold('prove', '--rung', 'bwrap')
  expect(code).toBe(0)
  // Whoever waits without a terminal sees how far it is: a line an attack, and nothing but such lines.
  const steps = err.trimEnd().split('\n')
  expect(steps.filter((line) => !/^bwrap: .*(whether it is there|\(\d+ of \d+\))$/.test(line))).toEqual([])
  const rows = out.split('\n').filter((line) => line.endsWith('■ blocked'))
  expect(rows.length).toBeGreaterThan(20)
  expect(steps.length).toBeGreaterThan(rows.length)
  expect(out).toMatch(/^What the cells of this machine stop, \d{4}-\d\d-\d\dT\d\d:\d\dZ$/m)
  expect(out).toMatch(/checks on 1 of 1 rung: \d+ blocked, 0 open, 0 not run/)
  expect(readdirSync(scratch).filter((name) => name.startsWith('anchorhold-'))).toEqual([])
}, 300_000)

test('anchorhold prove --json says the same to a program', async () => {
  const { code, out } = await anchorhold('prove', '--rung', 'bwrap', '--json')
  const report = ProofReport.parse(JSON.parse(out))
  expect(code).toBe(0)
  expect(report.assaults.length).toBe(report.attacks.length)
  for (const { findings } of report.assaults)
    expect(findings.filter(({ verdict }) => verdict !== 'blocked' && verdict !== 'not applicable')).toEqual([])
}, 300_000)

test('anchorhold prove refuses to attack what is no wall', async () => {
  const { code, err } = await anchorhold('prove', '--rung', 'none')
  expect(code).toBe(2)
  expect(err).toContain('it is no wall')
})
