import fc from 'fast-check'
import { expect, test } from 'vitest'
import { costOf, imageTokens, priceOf, worstCase } from './prices.ts'

const none = { input: 0, output: 0, cache_read: 0, cache_write: 0 }
const million = 1_000_000
const usd = 1_000_000_000

test.each([
  ['claude-sonnet-5', 2, 10],
  ['claude-sonnet-5-5', 2, 10],
  ['claude-sonnet-4-5-20250929', 3, 15],
  ['claude-opus-4-8[1m]', 5, 25],
  ['claude-opus-4-1', 15, 75],
  ['claude-opus-5-5', 4, 20],
  ['claude-fable-5-2', 8, 40],
  ['anthropic/claude-sonnet-4.5', 3, 15],
  ['us.anthropic.claude-opus-4-6-v1:0', 5, 25],
  ['rehearsal-1', 2, 10],
])('costOf() charges %s at its list price', (model, input, output) => {
  expect(costOf(model, { ...none, input: million })).toBe(input * usd)
  expect(costOf(model, { ...none, output: million })).toBe(output * usd)
  expect(priceOf(model, 0).known).toBe(true)
})

test('costOf() charges haiku more once the prompt is long', () => {
  expect(costOf('claude-haiku-5-5', { ...none, input: 100_000 })).toBe(100_000 * 100)
  expect(costOf('claude-haiku-5-5', { ...none, input: 50_001, cache_read: 50_000 })).toBe(50_001 * 500 + 50_000 * 50)
})

test('costOf() charges a cache read a tenth, a write five quarters, an hour twice', () => {
  expect(costOf('claude-sonnet-5', { ...none, cache_read: million })).toBe(usd / 5)
  expect(costOf('claude-sonnet-5', { ...none, cache_write: million })).toBe((usd * 5) / 2)
  expect(costOf('claude-sonnet-5', { ...none, cache_write: million, cache_write_1h: million })).toBe(usd * 4)
})

test.each(['gpt-9', '', 'notclaude-sonnet-5', 'claude'])(
  'priceOf() takes the unknown model %j for the dearest and says so',
  (model) => {
    expect(priceOf(model, 0)).toMatchObject({ known: false, price: { input: 15_000, output: 75_000 } })
  },
)

test('costOf() is a whole number for every model and every count', () => {
  const tokens = fc.nat({ max: 10_000_000 })
  const used = fc.record({ input: tokens, output: tokens, cache_read: tokens, cache_write: tokens, cache_write_1h: tokens })
  fc.assert(
    fc.property(fc.constantFrom('claude-haiku-5-5', 'claude-sonnet-5', 'claude-opus-4-8', 'x'), used, (model, counts) => {
      expect(Number.isSafeInteger(costOf(model, counts))).toBe(true)
    }),
  )
})

test('worstCase() is never below what the same prompt costs at two bytes a token', () => {
  const prompt = fc.record({
    model: fc.constantFrom('claude-haiku-5-5', 'claude-sonnet-5', 'claude-opus-4-8', 'x'),
    knownPrefixTokens: fc.nat({ max: 500_000 }),
    restBytes: fc.nat({ max: 2_000_000 }),
    imageTokens: fc.nat({ max: 50_000 }),
    caching: fc.constantFrom('none' as const, '5m' as const, '1h' as const),
  })
  fc.assert(
    fc.property(prompt, fc.nat({ max: 64_000 }), (asked, output) => {
      const bound = worstCase(asked)
      const input = asked.knownPrefixTokens + Math.floor(asked.restBytes / 2) + asked.imageTokens
      const written =
        asked.caching === 'none' ? {} : { input: 0, cache_write: input, cache_write_1h: asked.caching === '1h' ? input : 0 }
      expect(bound.promptNanos + output * bound.perOutputToken).toBeGreaterThanOrEqual(
        costOf(asked.model, { ...none, input, output, ...written }),
      )
    }),
  )
})

test('imageTokens() takes an image of unknown size for the largest', () => {
  expect(imageTokens({ width: 750, height: 100 })).toBe(101)
  expect(imageTokens(null)).toBe(imageTokens({ width: 20_000, height: 20_000 }))
})
