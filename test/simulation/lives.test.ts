import { sqliteStore } from '@anchorhold/daemon/store/sqlite/sqlite-store'
import { test } from 'vitest'
import { lives, runSchedule } from './schedule.ts'

const count = Number(process.env.SCHEDULES ?? 4500)
const first = Number(process.env.SCHEDULE_SEED ?? 1)

test(`nothing is lost or doubled in ${count} lives of a session`, { timeout: 900_000 }, async () => {
  const store = sqliteStore(':memory:')
  for (let seed = first; seed < first + count; seed++) {
    try {
      await runSchedule(seed, lives, store)
    } catch (error) {
      throw new Error(`Run it alone: SCHEDULES=1 SCHEDULE_SEED=${seed}`, { cause: error })
    }
  }
  store.close()
})
