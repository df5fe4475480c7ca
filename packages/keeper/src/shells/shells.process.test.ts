import { systemClock } from '@anchorhold/link/clock'
import { terminalKeptBytes } from '@anchorhold/protocol/terminal'
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { bwrapDriver } from '../cells/bwrap/bwrap.ts'
import type { CellDriver, CellProcess } from '../cells/cell.ts'
import { noneDriver } from '../cells/none/none.ts'
import { trialFiles } from '../cells/trial-files.ts'
import { trialSpecs } from '../cells/trial.ts'
import { type Shells, shells } from './shells.ts'

const { node } = trialFiles('')
const size = { cols: 80, rows: 24 }

function make() {
  const closed: string[] = []
  const made = shells({ clock: systemClock, random: randomBytes, onClosed: (_, why) => void closed.push(why) })
  return { made, closed }
}

/** What it shows from the beginning, until that fits. */
async function seen(made: Shells, shell: string, fits: RegExp): Promise<string> {
  let all = ''
  for (let after = 0; !fits.test(all);) {
    const { from, base64, ended } = await made.read(shell, after)
    const bytes = Buffer.from(base64, 'base64')
    all += bytes.toString('utf8')
    after = from + bytes.length
    if (ended !== null && bytes.length === 0) return `${all}[${ended}]`
  }
  return all
}

/** `programs` come before those of the cell. */
async function inCell(
  driver: CellDriver,
  look: (made: Shells, shell: string, closed: string[]) => Promise<void>,
  programs: Record<string, string> = {},
): Promise<void> {
  await using specs = trialSpecs()
  const spec = await specs.make()
  for (const [name, text] of Object.entries(programs)) await writeFile(join(spec.workspace, name), text, { mode: 0o755 })
  await using cell = await driver.start(
    { ...spec, mounts: [{ source: node, target: '/opt/anchorhold/node' }] },
    AbortSignal.timeout(10_000),
  )
  const { made, closed } = make()
  const env = {
    PATH: `${cell.place(spec.workspace)}:/usr/bin:/bin`,
    HOME: cell.place(spec.home),
    TERM: 'xterm-256color',
    PS1: '$ ',
  }
  const shell = made.open(
    size,
    (args) => cell.spawn([cell.place(node), ...args], { env, cwd: cell.place(spec.workspace) }),
    'ann',
  )
  await look(made, shell, closed)
}

describe.each([bwrapDriver(), noneDriver()])('shells() in a cell of rung $rung', (driver) => {
  test('open() gives a shell on a terminal that can be typed at, resized and ended by it', async () => {
    await inCell(driver, async (made, shell, closed) => {
      const type = (text: string) => made.write(shell, Buffer.from(text))
      type('test -t 0 && test -t 1 && echo is a $((40+2)) terminal; stty size\n')
      expect(await seen(made, shell, /24 80/)).toContain('is a 42 terminal')
      expect(() => made.resize(shell, size, 'bob')).toThrow('There is no terminal')
      made.resize(shell, { cols: 101, rows: 33 }, 'ann')
      type('until [ "$(stty size)" = "33 101" ]; do sleep 0.05; done; echo grown$((1))\n')
      await seen(made, shell, /grown1/)
      // A key that interrupts reaches what runs, and nothing else. Only a program that has said something is surely there to be
      // interrupted, and only at its next prompt does the shell keep what is typed.
      type('sh -c "echo on\\$((1)); exec sleep 1000"\n')
      await seen(made, shell, /on1/)
      type('\x03')
      await seen(made, shell, /on1\r\n[^]*\$ $/)
      type('echo back$((1))\n')
      await seen(made, shell, /back1\r\n[^]*\$ $/)
      type('exit 3\n')
      expect(await seen(made, shell, /never/)).toMatch(/\[The shell ended with 3\]$/)
      expect([closed, made.count]).toEqual([['The shell ended with 3'], 0])
    })
  })

  test('resize() holds for a terminal that is only just being made', async () => {
    await inCell(driver, async (made, shell) => {
      made.resize(shell, { cols: 101, rows: 33 })
      made.write(shell, Buffer.from('until [ "$(stty size)" = "33 101" ]; do sleep 0.05; done; echo grown$((1))\n'))
      await seen(made, shell, /grown1/)
    })
  })

  test('resize() holds where a shell writes back the size that it has read before', async () => {
    const look = async (made: Shells, shell: string) => {
      made.resize(shell, { cols: 101, rows: 33 })
      made.write(
        shell,
        Buffer.from('until [ -e late ] && [ "$(stty size)" = "33 101" ]; do sleep 0.05; done; echo grown$((1))\n'),
      )
      await seen(made, shell, /grown1/)
    }
    const late = '[ "$1" = -F ] && [ "$3" = rows ] && [ ! -e late ] && : > late && /usr/bin/stty -F "$2" rows 24 cols 80'
    await inCell(driver, look, { stty: `#!/bin/sh\n/usr/bin/stty "$@" && { ${late}; true; }\n` })
  })

  test('close() ends what runs in it', async () => {
    await inCell(driver, async (made, shell, closed) => {
      made.write(shell, Buffer.from('echo up$((1)); sleep 1000\n'))
      await seen(made, shell, /up1/)
      made.close(shell, 'Closed by owner')
      expect([closed, made.count]).toEqual([['Closed by owner'], 0])
    })
  })
})

/** A shell whose program the test speaks for. */
function fake() {
  const { made, closed } = make()
  const [stdin, stdout] = [new PassThrough(), new PassThrough()]
  const exited = Promise.withResolvers<number>()
  const process: CellProcess = {
    ...{ stdin, stdout, stderr: new PassThrough(), exitCode: null, killed: false, exited: exited.promise },
    kill: () => true,
  }
  return { made, closed, stdout, shell: made.open(size, () => process, 'ann') }
}
const turn = () => new Promise((resolve) => setImmediate(resolve))

describe('shells()', () => {
  afterEach(() => vi.useRealTimers())

  test('read() gives whoever comes back what is kept, and says where that begins', async () => {
    const { made, stdout, shell } = fake()
    stdout.write('hello')
    expect(await made.read(shell, 0)).toEqual({ from: 0, base64: Buffer.from('hello').toString('base64'), ended: null })
    expect(await made.read(shell, 0)).toMatchObject({ from: 0 })
    expect(await made.read(shell, 3)).toMatchObject({ from: 3, base64: Buffer.from('lo').toString('base64') })
  })

  test('read() is waited for: a program that shows more than is kept stops until somebody has taken it', async () => {
    const { made, stdout, shell } = fake()
    for (let n = 0; n < 64; n++) {
      stdout.write(Buffer.alloc(16 * 1024))
      await turn()
    }
    expect(stdout.isPaused()).toBe(true)
    let bytes = 0
    for (let after = 0; bytes < 64 * 16 * 1024;) {
      const { from, base64 } = await made.read(shell, after)
      expect(from).toBe(after)
      after += Buffer.from(base64, 'base64').length
      bytes = after
    }
  })

  test('a shell that nobody looks at goes on, keeps the newest, and ends after a while', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', 'Date'] })
    const { made, closed, stdout, shell } = fake()
    vi.advanceTimersByTime(60_000)
    for (let n = 0; n < 64; n++) {
      stdout.write(Buffer.alloc(16 * 1024, n))
      await turn()
    }
    expect(stdout.isPaused()).toBe(false)
    const { from } = await made.read(shell, 0)
    expect(from).toBeGreaterThanOrEqual(64 * 16 * 1024 - 2 * terminalKeptBytes)
    vi.advanceTimersByTime(11 * 60_000)
    expect([closed, made.count]).toEqual([['Nobody came back to it'], 0])
  })

  test('open() has a limit', () => {
    const { made } = fake()
    const process = fakeProcess()
    for (let n = 1; n < 8; n++) made.open(size, () => process, 'ann')
    expect(() => made.open(size, () => process, 'ann')).toThrow('There are 8 terminals already')
  })
})

const fakeProcess = (): CellProcess => ({
  ...{ stdin: new PassThrough(), stdout: new PassThrough(), stderr: new PassThrough(), exitCode: null, killed: false },
  exited: new Promise<number>(() => {}),
  kill: () => true,
})
