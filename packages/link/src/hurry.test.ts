import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { getPriority, setPriority } from 'node:os'
import { expect, test } from 'vitest'
import { hurry } from './hurry.ts'

/** Root may, where it has not been taken from it. */
const mayHurry = (() => {
  const before = getPriority()
  try {
    setPriority(before - 1)
    setPriority(before)
    return true
  } catch {
    return false
  }
})()
/** Says that it runs; told anything, hurries no more and says so. */
const program = `
  import { hurryNoMore } from ${JSON.stringify(new URL('hurry.ts', import.meta.url).href)}
  process.stdin.on('data', () => { hurryNoMore(); console.log('among others') })
  console.log('runs')`

/** Such a process, in a session of its own or in that of this one. */
async function started(detached: boolean) {
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], { detached, stdio: ['pipe', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  const pid = child.pid!
  return {
    pid,
    places: () => [...new Set(readdirSync(`/proc/${pid}/task`).map((thread) => getPriority(Number(thread))))],
    sessions: () => sessionPlace(pid),
    async noMore() {
      child.stdin.write('now')
      await once(child.stdout, 'data')
    },
    [Symbol.dispose]: () => void child.kill('SIGKILL'),
  }
}

/** Null where the kernel gives the session none: it shares no time out between sessions, or it counts this one as nobody's. */
function sessionPlace(pid: number | 'self'): number | null {
  try {
    const place = / nice (-?\d+)\n$/.exec(readFileSync(`/proc/${pid}/autogroup`, 'latin1'))?.[1]
    return place === undefined ? null : Number(place)
  } catch {
    return null
  }
}

test.runIf(mayHurry)('who hurries goes ahead of others until it says otherwise, with all of its threads', async () => {
  using one = await started(true)
  const among = one.sessions()
  hurry(one.pid)
  expect(getPriority(one.pid)).toBe(-20)
  expect(one.sessions()).toBe(among === null ? null : -20)
  await one.noMore()
  expect(one.places()).toEqual([0])
  expect(one.sessions()).toBe(among)
})

test.runIf(mayHurry)('it does not take along whoever shares its session', async () => {
  using one = await started(false)
  const ours = sessionPlace('self')
  hurry(one.pid)
  expect(getPriority(one.pid)).toBe(-20)
  expect(sessionPlace('self')).toBe(ours)
})

test.skipIf(mayHurry)('whoever may not hurry starts as others do', async () => {
  using one = await started(true)
  hurry(one.pid)
  await one.noMore()
  expect(one.places()).toEqual([0])
})
