import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { Rung } from '@anchorhold/protocol/rungs'
import { housePolicy } from './house-policy.ts'

const anthropic = { name: 'anthropic', kind: 'anthropic' } as const
const local = { name: 'mine', kind: 'local' } as const

/** The policy of a house whose owner wrote this; null for one that wrote none. And what a daemon has kept of the one before. */
function written(text: string | null, kept: string | null = null, wanted: Partial<Wanted> = {}, rung: Rung = 'bwrap') {
  const config = mkdtempSync(join(tmpdir(), 'ah-policy-'))
  onTestFinished(() => rmSync(config, { recursive: true }))
  if (text !== null) writeFileSync(join(config, 'policy.yaml'), text)
  const memory = join(config, 'memory')
  mkdirSync(memory)
  if (kept !== null) writeFileSync(join(memory, 'policy.yaml'), kept)
  const nothing = { rung: null, network: null, repoFilter: null }
  return housePolicy({ config, repoFilter: 'standard', rung }, memory, { ...nothing, ...wanted })
}
type Wanted = Parameters<typeof housePolicy>[2]

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

test('a cell without a wall is asked for on the command line, whatever the configuration says', () => {
  expect(() => written(null, null, {}, 'none')).toThrow('config.yaml says "rung: none", and the command line does not')
  expect(written(null, null, { rung: 'none' }, 'none')).toMatchObject({ rung: 'none', network: 'host' })
  expect(written(null, null, { rung: 'none' })).toMatchObject({ rung: 'none', network: 'host' })
  expect(written(null)).toMatchObject({ rung: 'bwrap', network: 'none' })
})

test('without a wall a command is on the host network, and is refused where it must not be', () => {
  for (const mode of ['none', 'proxy_only'])
    expect(() => written(`network_mode: ${mode}\n`, null, { rung: 'none' })).toThrow(
      `The policy gives a cell no network beyond "${mode}"`,
    )
  expect(written('network_mode: host\n', null, { rung: 'none' })).toMatchObject({ network: 'host' })
  expect(() => written(null, null, { rung: 'none', network: 'none' })).toThrow("cannot be kept off the host's network")
  expect(() => written(null, null, { rung: 'none', network: 'proxy' })).toThrow('has no net window')
})

test('a rung that is weaker than the policy requires is refused, and so is no wall at all', () => {
  expect(() => written('isolation_mode: local\n', null, { rung: 'none' })).toThrow('weaker than the policy requires')
  expect(() => written('isolation_mode: container\n')).toThrow('weaker than the policy requires')
})
