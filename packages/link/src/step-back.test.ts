import { spawn } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { getPriority, setPriority } from 'node:os'
import { expect, test, vi } from 'vitest'
import { niceness, stepBack, stepBackTogether } from './step-back.ts'

test('stepBack() lets others go first, and gives nobody more than they had', () => {
  const child = spawn('sleep', ['60'])
  try {
    stepBack(child.pid!)
    expect(getPriority(child.pid)).toBe(niceness)
    setPriority(child.pid!, niceness + 5)
    stepBack(child.pid!)
    expect(getPriority(child.pid)).toBe(niceness + 5)
  } finally {
    child.kill('SIGKILL')
  }
  expect(() => stepBack(2 ** 22 + 1)).not.toThrow()
})

test('stepBack() holds for threads that are there already', async () => {
  const child = spawn(process.execPath, ['-e', 'process.stdout.write("up"); setInterval(() => {}, 1000)'])
  try {
    await new Promise((resolve) => child.stdout.once('data', resolve))
    stepBack(child.pid!)
    const threads = readdirSync(`/proc/${child.pid}/task`).map(Number)
    expect(threads.length).toBeGreaterThan(1)
    expect(new Set(threads.map((thread) => getPriority(thread)))).toEqual(new Set([niceness]))
  } finally {
    child.kill('SIGKILL')
  }
})

// A kernel may have been built without it.
test.skipIf(!existsSync('/proc/self/autogroup'))(
  'stepBackTogether() holds for a session that the kernel weighs as one',
  async () => {
    const child = spawn('sleep', ['60'], { detached: true })
    try {
      const group = () => readFileSync(`/proc/${child.pid}/autogroup`, 'latin1')
      expect(group()).toMatch(/ nice 0$/m)
      stepBackTogether(child.pid!)
      // Whoever is not root may be told to come again.
      await vi.waitFor(() => expect(group()).toMatch(/ nice 5$/m), { timeout: 10_000 })
      expect(getPriority(child.pid)).toBe(niceness)
    } finally {
      child.kill('SIGKILL')
    }
  },
)
