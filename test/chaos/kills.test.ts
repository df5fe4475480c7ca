import type { EventBody } from '@anchorhold/protocol/events'
import { expect, test } from 'vitest'
import { setTimeout as wait } from 'node:timers/promises'
import { seeded } from '../seeded.ts'
import { fleet, type Killed, type Victim } from './fleet.ts'

const kills = Number(process.env.CHAOS_KILLS ?? 200)
const sessions = Number(process.env.CHAOS_SESSIONS ?? 20)
const seed = Number(process.env.CHAOS_SEED ?? 1)
const reckonEvery = 40
const victims = (process.env.CHAOS_VICTIMS ?? 'daemon,gate,keeper,all').split(',') as Victim[]

/** How soon what was killed has to answer again, half of the time at least: the machine may have less to give than twenty agents want. */
const backMsMax: Record<Victim, number | null> = { gate: 1000, daemon: 2000, keeper: null, all: 2000 }

/** How long everybody is left to speak at most, and for how many words a turn goes on. An agent whose call is cut off begins it anew, and
 *  gives up after fifteen times: most calls have to come to their end between two kills. */
const apartMs: Record<Victim, number> = { daemon: 1000, gate: 6000, keeper: 0, all: 0 }
const words: Record<Victim, number> = { daemon: 300, gate: 150, keeper: 300, all: 150 }

test.each(victims)(
  `nothing is lost or doubled when %s is killed ${kills} times with ${sessions} sessions at work (seed ${seed})`,
  async (victim) => {
    const random = seeded(seed)
    await using all = await fleet(sessions, words[victim])
    const killed: Killed[] = []
    for (let kill = 0; kill < kills; kill++) {
      await all.work()
      await wait(random() * apartMs[victim])
      killed.push(await all.kill(victim, random))
      // One that is cut off itself has shown something.
      if (killed.length % reckonEvery !== 0 || killed.length === kills) continue
      await all.reckon()
      console.log(`${victim}: nothing lost or doubled by ${killed.length} kills`)
    }
    const logs = await all.reckon()
    const ends = logs
      .flat()
      .flatMap((event) => (event.type === 'turn.ended' ? [event.body] : []))
      .map(endWords)
    const must = backMsMax[victim]
    const backs = killed.flatMap(({ backMs }) => backMs ?? [])
    const back = spread(backs)
    const late = must === null ? '' : `, ${backs.filter((ms) => ms > must).length} beyond ${must} ms`
    const gone = spread(killed.flatMap(({ goneMs }) => goneMs ?? []))
    const speaking = Math.round(killed.reduce((sum, each) => sum + each.speaking, 0) / kills)
    console.log(
      `${victim}: ${kills} kills with ${speaking} of ${sessions} speaking (mean), ${ends.length} turns ended (${tally(ends)}), ${logs.flat().length} events` +
        `${back === null ? '' : `; back after ${spreadWords(back)}${late}`}${gone === null ? '' : `; nothing left of its cell after ${spreadWords(gone)}`}`,
    )
    // Agents do not notice that a daemon was away; and a gate that died is back before they give up.
    if (victim === 'daemon' || victim === 'gate') expect(new Set(ends)).toEqual(new Set(['done']))
    if (must !== null) expect(back!.median).toBeLessThanOrEqual(must)
  },
)

const endWords = ({ reason, why }: EventBody<'turn.ended'>) => (why === null ? reason : `${reason}: ${why}`)

type Spread = { readonly median: number; readonly longest: number }
function spread(figures: readonly number[]): Spread | null {
  if (figures.length === 0) return null
  const sorted = figures.toSorted((a, b) => a - b)
  return { median: Math.round(sorted[sorted.length >> 1]!), longest: Math.round(sorted.at(-1)!) }
}
const spreadWords = ({ median, longest }: Spread) => `${median} ms (median), ${longest} ms (longest)`

function tally(words: readonly string[]): string {
  const counts = Map.groupBy(words, (word) => word)
  return [...counts].map(([word, all]) => `${all.length} ${word}`).join(', ')
}
