import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Installation, installation } from '../e2e/installation.ts'
import { openBrowser } from './browser.ts'
import { disconnectsRun, figures } from './disconnects.ts'

/** How many in all, and the first seed: a run that failed is repeated with `DISCONNECTS=25 DISCONNECTS_SEED=N`. */
const rounds = Number(process.env['DISCONNECTS'] || 1000)
const firstSeed = Number(process.env['DISCONNECTS_SEED'] || 1)
const roundsPerRun = 25

let it: Installation
let browser: Browser
beforeAll(async () => {
  ;[it, browser] = await Promise.all([installation({ samePort: true }), openBrowser()])
})
afterAll(async () => {
  await browser.close()
  await it[Symbol.asyncDispose]()
})

const caughtUp: number[] = []
const kinds: Record<string, number> = {}
for (let run = 0; run * roundsPerRun < rounds; run++) {
  const seed = firstSeed + run
  test(`seed ${seed}: ${roundsPerRun} random disconnects lose, double and reorder nothing`, async () => {
    const done = await disconnectsRun({ browser, it }, { seed, rounds: Math.min(roundsPerRun, rounds - run * roundsPerRun) })
    caughtUp.push(...done.caughtUpMs)
    for (const [kind, count] of Object.entries(done.kinds)) kinds[kind] = (kinds[kind] ?? 0) + count
  })
}

test('every one was caught up with', () => {
  console.log(`${caughtUp.length} disconnects: ${figures(caughtUp)}; ${JSON.stringify(kinds)}`)
  expect(caughtUp).toHaveLength(rounds)
})
