import { expect, test } from 'vitest'
import { setTimeout as wait } from 'node:timers/promises'
import { seeded } from '../seeded.ts'
import { fleet, type Victim } from './fleet.ts'

const kills = Number(process.env.CHAOS_KILLS ?? 200)
const sessions = Number(process.env.CHAOS_SESSIONS ?? 20)
const seed = Number(process.env.CHAOS_SEED ?? 1)
const victims = (process.env.CHAOS_VICTIMS ?? 'daemon,gate,keeper,all').split(',') as Victim[]

test.each(victims)(
  `nothing is lost or doubled when %s is killed ${kills} times with ${sessions} sessions at work (seed ${seed})`,
  async (victim) => {
    const random = seeded(seed)
    await using all = await fleet(sessions)
    const tookMs: number[] = []
    for (let kill = 0; kill < kills; kill++) {
      await all.work()
      await wait(random() * 400)
      tookMs.push(await all.kill(victim, random))
    }
    const logs = await all.reckon()
    const ends = logs.flat().flatMap((event) => (event.type === 'turn.ended' ? [event.body.reason] : []))
    // Agents do not notice that a daemon was away; and a gate that died is back before they give up.
    if (victim === 'daemon') expect(new Set(ends)).toEqual(new Set(['done']))
    const sorted = tookMs.toSorted((a, b) => a - b)
    console.log(
      `${victim}: ${kills} kills, ${ends.length} turns ended (${tally(ends)}), ${logs.flat().length} events; ` +
        `back after ${Math.round(sorted[sorted.length >> 1]!)} ms (median), ${Math.round(sorted.at(-1)!)} ms (longest)`,
    )
  },
)

function tally(words: readonly string[]): string {
  const counts = Map.groupBy(words, (word) => word)
  return [...counts].map(([word, all]) => `${all.length} ${word}`).join(', ')
}
