import { availableParallelism, loadavg } from 'node:os'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Installation, installation } from '../e2e/installation.ts'
import { openBrowser } from './browser.ts'
import { type Disconnect, disconnectsRun, figures } from './disconnects.ts'

/** How many in all, and the first seed: a run that failed is repeated with `DISCONNECTS=100 DISCONNECTS_SEED=N`. */
const wanted = Number(process.env['DISCONNECTS'] || 1000)
const firstSeed = Number(process.env['DISCONNECTS_SEED'] || 1)
/** Sessions at a time, with two tabs each: more of them would wait for each other on two cores, and not for the product. */
const lanes = 2
const roundsPerRun = 50
const perRun = lanes * roundsPerRun
const caughtUpMsMax = 2000

let it: Installation
let browser: Browser
beforeAll(async () => {
  ;[it, browser] = await Promise.all([installation({ samePort: true }), openBrowser()])
})
afterAll(async () => {
  await browser.close()
  await it[Symbol.asyncDispose]()
})

const all: Disconnect[] = []
for (let run = 0; run * perRun < wanted; run++) {
  const seed = firstSeed + run
  const rounds = Math.min(roundsPerRun, Math.ceil((wanted - run * perRun) / lanes))
  test(`seed ${seed}: ${rounds * lanes} random disconnects lose, double and reorder nothing`, async () => {
    const done = await disconnectsRun({ browser, it }, { seed, rounds, lanes })
    console.log(`seed ${seed}: ${figures(done)}`)
    all.push(...done)
  })
}

test('every one was caught up with within two seconds', () => {
  console.log(`${figures(all)}\n(load ${loadavg()[0]!.toFixed(1)} on ${availableParallelism()} cores)`)
  expect(all.length).toBeGreaterThanOrEqual(wanted)
  expect(all.filter(({ caughtUpMs }) => caughtUpMs > caughtUpMsMax)).toEqual([])
})
