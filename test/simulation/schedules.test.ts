import { sqliteStore } from '@anchorhold/daemon/store/sqlite/sqlite-store'
import { test } from 'vitest'
import { runSchedule } from './schedule.ts'

const count = Number(process.env.SCHEDULES ?? 1000)
const first = Number(process.env.SCHEDULE_SEED ?? 1)

test(`nothing is lost or doubled in ${count} schedules`, { timeout: 600_000 }, async () => {
  let events = 0
  let steps = 0
  for (let seed = first; seed < first + count; seed++) {
    const store = sqliteStore(':memory:')
    try {
      const outcome = await runSchedule(seed, store)
      events += outcome.events
      steps += outcome.steps
    } catch (error) {
      throw new Error(`Run it alone: SCHEDULES=1 SCHEDULE_SEED=${seed}`, { cause: error })
    } finally {
      store.close()
    }
  }
  console.log(`${count} schedules, ${steps} steps, ${events} events`)
})
