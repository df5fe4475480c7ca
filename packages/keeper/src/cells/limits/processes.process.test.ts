import { spawn } from 'node:child_process'
import { getPriority, setPriority } from 'node:os'
import { Worker } from 'node:worker_threads'
import { expect, test } from 'vitest'
import { countTasksOf, identify, isEnding, isGone, niceness, readProc, stepBack, tasksOf, treeOf, until } from './processes.ts'

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

test('isEnding() tells a process that runs nothing any more, though it is not gone', async () => {
  // The first process of a namespace is not gone before its last one is reaped, and that one's parent is made to wait with it.
  const outer = spawn('unshare', ['--user', '--map-root-user', '--pid', '--fork', 'sleep', '60'])
  const first = await childOf(outer.pid!)
  const parent = spawn('nsenter', ['--user', '--preserve-credentials', '--pid', '--target', String(first.pid), 'sleep', '60'])
  try {
    await childOf(parent.pid!)
    parent.kill('SIGSTOP')
    expect(isEnding(first)).toBe(false)
    process.kill(first.pid, 'SIGKILL')
    await until('it is ending', 10_000, () => isEnding(first))
    expect(isGone(first)).toBe(false)
  } finally {
    parent.kill('SIGCONT')
    outer.kill('SIGKILL')
  }
  await until('it is gone', 10_000, () => isGone(first))
  expect(isEnding(first)).toBe(true)
})

async function childOf(pid: number) {
  const children = () => treeOf([pid]).filter((each) => each.pid !== pid && readProc(each.pid, 'comm') === 'sleep\n')
  await until(`${pid} has a child`, 10_000, () => children().length > 0)
  return identify(children()[0]!.pid)!
}
