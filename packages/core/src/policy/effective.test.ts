import { expect, test } from 'vitest'
import { effective, modelRefusal, narrowing, noSettings, type PolicySettings } from './effective.ts'
import { onCommand } from './test-policy.ts'

const own = { autonomy: null, observe: false, mayWiden: true } as const
const settings = (file: string, more: Partial<PolicySettings>): PolicySettings => ({ ...noSettings(file), ...more })

test('effective() is full autonomy and no rule where nothing is said', () => {
  expect(effective([], own).policy).toMatchObject({ autonomy: 'full', rules: [], tools: [], models: [], observe: false })
})

test('effective() takes in everything the strictest that any policy says', () => {
  const a = settings('policy.yaml', {
    autonomy: 'supervised',
    maxContextTokens: 100,
    rung: 'gvisor',
    maxConcurrent: 5,
    breakers: { errors: null, turns: 7 },
    parkAfterMs: 10,
    providers: ['x', 'y'],
  })
  const b = settings('policies/b.yaml', {
    autonomy: 'restricted',
    maxContextTokens: 200,
    rung: 'bwrap',
    maxConcurrent: 2,
    breakers: { errors: 3, turns: 9 },
    providers: ['y'],
    requireIdempotency: true,
  })
  for (const both of [
    [a, b],
    [b, a],
  ]) {
    const { policy, rung, maxConcurrent, providers, requireIdempotency } = effective(both, own)
    expect(policy).toMatchObject({
      autonomy: 'restricted',
      max_context_tokens: 100,
      park_after_ms: 10,
      breakers: { repeats: 5, errors: 3, turns: 7 },
    })
    expect({ rung, maxConcurrent, requireIdempotency }).toEqual({ rung: 'gvisor', maxConcurrent: 2, requireIdempotency: true })
    expect(providers).toHaveLength(2)
  }
  expect(effective([a], own).policy.breakers.errors).toBe(null)
})

test('effective() lets a person choose the autonomy, and an agent only less of it', () => {
  const house = [settings('policy.yaml', { autonomy: 'supervised' })]
  const chosen = (autonomy: 'full' | 'read_only', mayWiden: boolean) =>
    effective(house, { autonomy, observe: true, mayWiden }).policy
  expect(chosen('full', true)).toMatchObject({ autonomy: 'full', observe: true })
  expect(chosen('full', false)).toMatchObject({ autonomy: 'supervised', observe: false })
  expect(chosen('read_only', false).autonomy).toBe('read_only')
})

test('narrowing() leaves of a policy what takes away, and nothing that adds', () => {
  const house = effective([settings('policy.yaml', { autonomy: 'supervised', grantMs: 50 })], own)
  const wide = settings('policies/wide.yaml', {
    rules: [
      { rule: onCommand('allow', 'a'), line: 1 },
      { rule: onCommand('deny', 'b'), line: 2 },
    ],
    autonomy: 'full',
    breakers: { repeats: null, errors: 1000, turns: 1 },
    ...{ parkAfterMs: 10 ** 12, requestMs: 10 ** 12, grantMs: 51, maxConcurrent: 100 },
    money: { ...noSettings('').money, tickMs: 1, perDayNanos: 7 },
  })
  expect(narrowing(wide, house)).toMatchObject({
    rules: [{ rule: onCommand('deny', 'b') }],
    autonomy: null,
    breakers: { turns: 1 },
    ...{ parkAfterMs: null, requestMs: null, grantMs: null, maxConcurrent: null },
    money: { tickMs: null, perDayNanos: 7 },
  })
  const strict = settings('policies/strict.yaml', { autonomy: 'read_only', grantMs: 49, maxConcurrent: 1 })
  expect(narrowing(strict, house)).toMatchObject({ autonomy: 'read_only', grantMs: 49, maxConcurrent: 1 })
})

test('effective() says of each rule where it stands', () => {
  const rules = [onCommand('allow', 'a'), onCommand('deny', 'b')]
  const { policy, origins } = effective(
    [
      settings('policy.yaml', { rules: [{ rule: rules[0]!, line: 3 }] }),
      settings('policies/x.yaml', { rules: [{ rule: rules[1]!, line: 9 }] }),
    ],
    own,
  )
  expect(policy.rules).toEqual(rules)
  expect(origins).toEqual([
    { file: 'policy.yaml', line: 3 },
    { file: 'policies/x.yaml', line: 9 },
  ])
})

test('effective() lets only those approve whom every policy names', () => {
  const money = (approvers: readonly string[] | null) => settings('p', { money: { ...noSettings('p').money, approvers } })
  expect(effective([money(['a', 'b']), money(['b', 'c']), money(null)], own).money.approvers).toEqual(['b'])
})

test.each([
  ['claude-sonnet-5', null],
  ['claude-opus-5', 'blocked_models has "claude-opus-*"'],
  ['gpt', 'allowed_models has "claude-*"'],
])('modelRefusal() of %s', (model, refusal) => {
  expect(
    modelRefusal(
      [
        { allowed: ['claude-*'], blocked: ['claude-opus-*'] },
        { allowed: [], blocked: ['x'] },
      ],
      model,
    ),
  ).toBe(refusal)
})
