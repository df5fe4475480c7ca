import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { housePolicy } from './house-policy.ts'

const anthropic = { name: 'anthropic', kind: 'anthropic' } as const
const local = { name: 'mine', kind: 'local' } as const

/** The policy of a house whose owner wrote this; null for one that wrote none. And what a daemon has kept of the one before. */
function written(text: string | null, kept: string | null = null) {
  const config = mkdtempSync(join(tmpdir(), 'ah-policy-'))
  onTestFinished(() => rmSync(config, { recursive: true }))
  if (text !== null) writeFileSync(join(config, 'policy.yaml'), text)
  const memory = join(config, 'memory')
  mkdirSync(memory)
  if (kept !== null) writeFileSync(join(memory, 'policy.yaml'), kept)
  return housePolicy({ config, repoFilter: 'standard' }, memory, { rung: 'bwrap', network: 'none', repoFilter: null })
}

test('without a policy an agent spends what it is given at any provider', () => {
  const { budgetAt } = written(null)
  expect([budgetAt(anthropic, null), budgetAt(anthropic, 5)]).toEqual([null, 5])
})

test('a provider that the policy does not allow is not used without a daemon either', () => {
  const { budgetAt } = written('allowed_providers: [local]\n')
  expect(budgetAt(local, null)).toBeNull()
  expect(() => budgetAt(anthropic, null)).toThrow('Cannot use the provider "anthropic": the policy allows "local"')
})

test('what the policy says of budgets holds without a daemon as well', () => {
  expect(() => written('require_max_cost: true\n').budgetAt(anthropic, null)).toThrow('Cannot start without a budget')
  const { budgetAt } = written('default_max_cost_usd: 2000000\n')
  expect([budgetAt(anthropic, null), budgetAt(anthropic, 5)]).toEqual([2e9, 5])
})

test('a policy that switches all off lets no cell start', () => {
  expect(() => written('mounts:\n  /claude:\n    access: disabled\n')).toThrow('has access: disabled')
})

test('where the policy is emptied or gone, the one that a daemon has kept is in force', () => {
  for (const text of [null, '', ' \n']) {
    const { budgetAt, isKept } = written(text, 'default_max_cost_usd: 2000000\n')
    expect([budgetAt(anthropic, null), isKept]).toEqual([2e9, true])
    expect(written(text, '\n').isKept).toBe(false)
  }
  const { budgetAt, isKept } = written('default_max_cost_usd: 3000000\n', 'default_max_cost_usd: 2000000\n')
  expect([budgetAt(anthropic, null), isKept]).toEqual([3e9, false])
})
