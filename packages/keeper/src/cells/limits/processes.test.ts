import { spawn } from 'node:child_process'
import { getPriority, setPriority } from 'node:os'
import { Worker } from 'node:worker_threads'
import { expect, test } from 'vitest'
import { countTasksOf, niceness, readProc, stepBack, tasksOf } from './processes.ts'

test('tasksOf() counts the threads of a process, as the kernel tells them', async () => {
  const before = tasksOf(process.pid)!
  const workers = [1, 2, 3].map(() => new Worker('setInterval(() => {}, 1_000)', { eval: true }))
  try {
    await Promise.all(workers.map((worker) => new Promise((resolve) => worker.once('online', resolve))))
    const { uid, count } = tasksOf(process.pid)!
    expect(uid).toBe(process.getuid!())
    expect(count).toBeGreaterThanOrEqual(before.count + workers.length)
    expect(count).toBe(Number(/^Threads:\s+(\d+)$/m.exec(readProc(process.pid, 'status')!)![1]))
    expect(countTasksOf(uid)).toBeGreaterThanOrEqual(count)
  } finally {
    await Promise.all(workers.map((worker) => worker.terminate()))
  }
})

test('countTasksOf() counts nothing of a user who runs nothing', () => {
  expect(countTasksOf(2 ** 31 - 7)).toBe(0)
  expect(tasksOf(2 ** 22 + 1)).toBeNull()
})

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
