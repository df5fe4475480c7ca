import { spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { attack, cellUnderAttack } from './cell-under-attack.ts'

/** Leaves its session, its parent and its signals behind. */
const escape = (mark: string) =>
  `use POSIX (); $| = 1; $SIG{$_} = "IGNORE" for qw(HUP INT TERM PIPE); fork && sleep 1000; POSIX::setsid(); fork && exit; print "away\\n"; exec "sleep", "${mark}"`

attack('outliving the cell', (driver) => {
  test('is refused when the cell is disposed of', async () => {
    const under = await cellUnderAttack(driver)
    const mark = uniqueSeconds()
    const inside = under.cell.spawn(['perl', '-e', escape(mark)], { env: { PATH: '/usr/bin:/bin' }, cwd: '/' })
    await new Promise((resolve) => inside.stdout.once('data', resolve))
    await expect.poll(() => sleepers(mark).length).toBe(1)
    await under[Symbol.asyncDispose]()
    expect(sleepers(mark)).toEqual([])
  })

  test('is refused when the command ends', async () => {
    await using under = await cellUnderAttack(driver)
    const mark = uniqueSeconds()
    expect((await under.sh(`(setsid sleep ${mark} >/dev/null 2>&1 &) ; echo left`)).lines).toEqual(['left'])
    await expect.poll(() => sleepers(mark)).toEqual([])
  })

  test('is refused to a process that is killed while it is being started', async () => {
    await using under = await cellUnderAttack(driver)
    const mark = uniqueSeconds()
    for (let i = 0; i < 40; i++) {
      const inside = under.cell.spawn(['sleep', mark], { env: { PATH: '/usr/bin:/bin' }, cwd: '/' })
      await delay(i / 4)
      inside.kill('SIGKILL')
      expect(await inside.exited).toBe(137)
    }
    await expect.poll(() => mentioning(mark)).toEqual([])
    expect((await under.sh('echo lives')).lines).toEqual(['lives'])
  })

  test('is refused when the keeper is killed', async () => {
    const mark = uniqueSeconds()
    const launcher = spawn(
      process.execPath,
      [join(import.meta.dirname, 'launcher.ts'), driver.rung, 'perl', '-e', escape(mark)],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    await new Promise((resolve) => launcher.stdout.once('data', resolve))
    await expect.poll(() => sleepers(mark).length).toBe(1)
    launcher.kill('SIGKILL')
    await expect.poll(() => sleepers(mark)).toEqual([])
  })
})

/** A number of seconds that no other test sleeps for. */
const uniqueSeconds = () => `${100_000 + Math.floor(Math.random() * 1e9)}`

/** Host pids of living processes that sleep for so long. A zombie has no command line. */
const sleepers = (seconds: string) => pidsWhere((line) => line === `sleep\0${seconds}\0`)
const mentioning = (word: string) => pidsWhere((line) => line.includes(word))

function pidsWhere(matches: (commandLine: string) => boolean): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        return matches(readFileSync(`/proc/${pid}/cmdline`, 'latin1'))
      } catch {
        return false
      }
    })
}
