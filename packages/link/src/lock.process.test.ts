import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { systemClock } from './clock.ts'
import { lockHolder, takeLock, takeLockOfKilled, takeLockThere } from './lock.ts'

/** A process that holds the lock until it is killed. */
async function holderOf(path: string) {
  const lock = fileURLToPath(new URL('lock.ts', import.meta.url))
  const script = `const { takeLock } = await import(${JSON.stringify(lock)}); globalThis.held = takeLock(${JSON.stringify(path)}); console.log('held'); setInterval(() => {}, 1000)`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  return child
}

test.skipIf(!existsSync('/proc/locks'))(
  'lockHolder() names the process that holds a lock, and nobody once it has ended',
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'ah-lock-'))
    const path = join(folder, 'lock')
    const child = await holderOf(path)
    // Also of one that hangs.
    child.kill('SIGSTOP')
    expect(takeLock(path)).toBeNull()
    expect(lockHolder(path)).toBe(child.pid)
    child.kill('SIGKILL')
    await once(child, 'exit')
    expect(lockHolder(path)).toBeNull()
    expect(lockHolder(join(folder, 'none'))).toBeNull()
    rmSync(folder, { recursive: true })
  },
)

test.skipIf(!existsSync('/proc/locks'))(
  'takeLockOfKilled() waits for a process to let go that was killed, and for no other',
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'ah-lock-'))
    const path = join(folder, 'lock')
    const child = await holderOf(path)
    child.kill('SIGSTOP')
    expect(await takeLockOfKilled(path, systemClock)).toBeNull()
    // A disk that takes its time over what a killed one had begun to write cannot be had here.
    let looks = 0
    const taken = takeLockOfKilled(path, systemClock, (pid) => {
      if (++looks === 3) child.kill('SIGKILL')
      return pid === child.pid
    })
    expect(await taken).not.toBeNull()
    expect(looks).toBeGreaterThanOrEqual(3)
    rmSync(folder, { recursive: true })
  },
)

test('takeLockThere() takes the lock of a file that is there, and makes none', () => {
  const folder = mkdtempSync(join(tmpdir(), 'ah-lock %20?#-'))
  const path = join(folder, 'lock')
  expect(takeLockThere(path)).toBeNull()
  expect(existsSync(path)).toBe(false)
  takeLock(path)?.release()
  const lock = takeLockThere(path)
  expect(lock).not.toBeNull()
  expect([takeLockThere(path), takeLock(path)]).toEqual([null, null])
  lock?.release()
  takeLock(path)!.release()
  rmSync(folder, { recursive: true })
})

test('of several that try at once exactly one has the lock', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ah-lock-'))
  const lock = fileURLToPath(new URL('lock.ts', import.meta.url))
  const rounds = 400
  // Each tries at the same moments, and holds what it gets for good.
  const script = `const { takeLock } = await import(${JSON.stringify(lock)}); process.stdin.once('data', (told) => {
    globalThis.held = []
    for (let i = 0; i < ${rounds}; i++) {
      while (Date.now() < Number(told) + i * 2);
      held.push(takeLock(${JSON.stringify(folder)} + '/' + i))
    }
    console.log(JSON.stringify(held.map((one) => one !== null)))
  }); console.log('ready')`
  const children = [0, 1].map(() =>
    spawn(process.execPath, ['--input-type=module', '--eval', script], { stdio: ['pipe', 'pipe', 'inherit'] }),
  )
  try {
    await Promise.all(children.map(({ stdout }) => once(stdout, 'data')))
    const said = children.map(({ stdout }) => once(stdout, 'data'))
    for (const { stdin } of children) stdin.write(String(Date.now() + 50))
    const [one, other] = (await Promise.all(said)).map(([data]) => JSON.parse(String(data)) as boolean[])
    expect(one!.map((has, i) => Number(has) + Number(other![i]))).toEqual(Array(rounds).fill(1))
  } finally {
    for (const child of children) child.kill('SIGKILL')
    rmSync(folder, { recursive: true })
  }
})
