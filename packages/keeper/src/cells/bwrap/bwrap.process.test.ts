import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { delegateCgroups, withdrawCgroups } from '@anchorhold/daemon/processes/cgroups'
import {
  chmodSync,
  constants,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, describe, expect, test, vi } from 'vitest'
import { cellContract } from '../contract.ts'
import { run, trialLimits, trialSpecs } from '../trial.ts'
import type { CellSpec } from '../cell.ts'
import { isGone, niceness, type ProcessId, readProc, treeOf } from '../limits/processes.ts'
import { bwrapDriver } from './bwrap.ts'
import { waiting } from './first-command.ts'

const driver = bwrapDriver()
cellContract(driver, { 'runs nothing out of its caches': 'bwrap has no option for it' })

/** The clone may lie where the cell's user cannot go; a copy beside the workspace is always within reach. */
function nodeBeside({ workspace }: CellSpec): string {
  const folder = join(dirname(workspace), 'programs')
  mkdirSync(folder, { mode: 0o755 })
  const copy = join(folder, 'node')
  copyFileSync(process.execPath, copy, constants.COPYFILE_FICLONE)
  chmodSync(copy, 0o755)
  return copy
}

const soon = () => AbortSignal.timeout(10_000)

const isRoot = process.getuid?.() === 0
/** Where this machine lets root make some. */
const controlGroups = isRoot ? delegateCgroups(`bwrap-test-${process.pid}`, { uid: 0, gid: 0 }) : []
const inFolder = (folder: string, name: RegExp) =>
  readdirSync(folder)
    .filter((each) => name.test(each))
    .map((each) => join(folder, each))

describe('bwrapDriver()', () => {
  test('what runs in a cell lets others go first', async () => {
    await using specs = trialSpecs()
    await using cell = await driver.start(await specs.make(), soon())
    expect((await run(cell, ['nice'])).output).toBe(`${niceness}\n`)
  })

  describe.runIf(isRoot && controlGroups.length > 0)('in control groups', () => {
    afterAll(() => vi.waitFor(() => (withdrawCgroups(controlGroups), expect(controlGroups.filter(existsSync)).toEqual([]))))
    const made = () => controlGroups.flatMap((folder) => inFolder(folder, /^cell-/))

    test('everything of a command is in them, however early it was started', async () => {
      await using specs = trialSpecs()
      await using cell = await driver.start({ ...(await specs.make()), cgroups: controlGroups }, soon())
      const [held] = made()
      for (let round = 1; round <= 5; round++) {
        cell.spawn(['sleep', '60'], { env: { PATH: '/usr/bin:/bin' }, cwd: '/' })
        // bwrap itself, the first processes of the namespaces around the cell and of the cell's own, and the command.
        await vi.waitFor(() => {
          const all = readFileSync(join(held!, 'cgroup.procs'), 'latin1').trim().split('\n')
          expect(all).toHaveLength(4 * round)
        })
      }
    })

    test('a command that cannot be put into them does not run, and the cell ends', async () => {
      await using specs = trialSpecs()
      const spec = await specs.make()
      await using cell = await driver.start({ ...spec, cgroups: controlGroups }, soon())
      // The first one has been in them since the cell was made.
      await run(cell, ['/bin/true'])
      await vi.waitFor(() => made().forEach((group) => rmdirSync(group)), { timeout: 5000 })
      cell.spawn(['touch', '/workspace/ran'], { env: { PATH: '/usr/bin:/bin' }, cwd: '/' })
      expect(await cell.ended).toContain('could not be put under its limits')
      expect(existsSync(join(spec.workspace, 'ran'))).toBe(false)
    })
  })

  test('the first command, which the process becomes that was proved, gets what every other gets', async () => {
    await using specs = trialSpecs()
    await using cell = await driver.start(await specs.make(), soon())
    const words = ["it's", 'two\nlines\n', '$(id) `id` $n', '', '\\', '"', ' a  b ', 'ü', '-x']
    for (const which of ['first', 'second']) {
      const script = 'printf "%s|" "$@"; cat; cat /proc/1/environ /proc/$$/environ; ls /proc/self/fd'
      const one = cell.spawn(['/bin/sh', '-c', script, 'sh', ...words], { env: { PATH: '/usr/bin:/bin' }, cwd: '/tmp' })
      one.stdin.end('in one line\nand another')
      const said = await text(one.stdout)
      expect({ which, said }).toEqual({
        which,
        said: `${words.join('|')}|in one line\nand anotherPATH=/usr/bin:/bin\0PWD=/tmp\x000\n1\n2\n3\n`,
      })
    }
  })

  test('a process that waits for a command ends with the cell, and with whoever made the cell', async () => {
    await using specs = trialSpecs()
    const spec = await specs.make()
    const those = () => treeOf([process.pid]).filter(({ pid }) => readProc(pid, 'cmdline')?.startsWith(`${waiting.join('\0')}\0`))
    const cell = await driver.start(spec, soon())
    const [one, ...others] = those()
    expect(others).toEqual([])
    await cell[Symbol.asyncDispose]()
    expect(isGone(one!)).toBe(true)
    // Killed, and so unable to end anything by itself.
    const script = `import { bwrapDriver } from ${JSON.stringify(join(import.meta.dirname, 'bwrap.ts'))}
      await bwrapDriver().start(JSON.parse(process.argv[1]), AbortSignal.timeout(10_000)); console.log('stands'); setInterval(() => {}, 1000)`
    const maker = spawn(process.execPath, ['--input-type=module', '-e', script, JSON.stringify(spec)])
    await once(maker.stdout, 'data')
    const [left] = those()
    expect(left).toBeDefined()
    maker.kill('SIGKILL')
    await vi.waitFor(() => expect(isGone(left!)).toBe(true))
  })

  test('lets the tools live that agents use: node, git, perl, a shell with a terminal', async () => {
    await using specs = trialSpecs()
    const spec = await specs.make({ limits: { ...trialLimits, processesMax: 256 } })
    const mounts = [{ source: nodeBeside(spec), target: '/opt/node/bin/node' }]
    await using cell = await driver.start({ ...spec, mounts }, soon())
    const env = { PATH: '/opt/node/bin:/usr/bin:/bin', HOME: '/home/agent' }
    const output = async (...argv: [string, ...string[]]) => (await run(cell, argv, { env, cwd: '/workspace' })).output
    const sh = (script: string) => output('sh', '-c', script)
    const inThread = `console.log(require('child_process').execFileSync('echo', ['node'], { encoding: 'utf8' }).trim())`
    expect(
      await output('node', '-e', `new (require('worker_threads').Worker)(${JSON.stringify(inThread)}, { eval: true })`),
    ).toBe('node\n')
    expect(await output('node', '-e', `require('dns').lookup('localhost', (e, a) => console.log(e ?? a))`)).toMatch(
      /^(127\.0\.0\.1|::1)\n$/,
    )
    expect(
      await sh('git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first && git log --format=%s'),
    ).toBe('first\n')
    expect(await sh('script -qc "echo terminal" /dev/null')).toContain('terminal')
    expect(await sh('cat /dev/null && head -c 4 /dev/urandom | wc -c && getent hosts localhost | head -1 | wc -l')).toBe('4\n1\n')
  })

  test('place() gives the innermost mount and knows no path outside', async () => {
    await using specs = trialSpecs()
    const spec = await specs.make()
    const node = nodeBeside(spec)
    const source = dirname(node)
    await using cell = await driver.start({ ...spec, mounts: [{ source, target: '/opt/node' }] }, soon())
    expect(cell.place(join(spec.workspace, 'a/b'))).toBe('/workspace/a/b')
    expect(cell.place(spec.home)).toBe('/home/agent')
    expect(cell.place(join(spec.windows ?? '', 'model.sock'))).toBe('/run/windows/model.sock')
    expect(cell.place(node)).toBe('/opt/node/node')
    expect(() => cell.place(`${spec.workspace}-other`)).toThrow('is not mounted')
  })

  test('a process that is killed before it has started takes no other along', async () => {
    await using specs = trialSpecs()
    await using cell = await driver.start(await specs.make(), soon())
    const other = cell.spawn(['sh', '-c', 'read line; echo $line'], { env: { PATH: '/usr/bin:/bin' }, cwd: '/' })
    for (let i = 0; i < 5; i++) {
      const early = cell.spawn(['sleep', '1000'], { env: { PATH: '/usr/bin:/bin' }, cwd: '/' })
      expect(early.kill('SIGTERM')).toBe(true)
      expect(await early.exited).toBe(137)
    }
    other.stdin.end('still here\n')
    expect(await other.exited).toBe(0)
  })

  test('start() is cancelled by its signal', async () => {
    await using specs = trialSpecs()
    await expect(driver.start(await specs.make(), AbortSignal.abort())).rejects.toThrow('aborted')
  })

  test('start() refuses a mount that would hide a part of the root', async () => {
    await using specs = trialSpecs()
    const spec = await specs.make({ mounts: [{ source: '/etc', target: '/etc' }] })
    await expect(driver.start(spec, soon())).rejects.toMatchObject({ code: 'cell_unavailable', hint: 'Mount it under /opt' })
  })

  test('spawn() hands bwrap its arguments, the environment among them, in no file', async () => {
    await using specs = trialSpecs()
    const spec = await specs.make()
    const standIn = join(dirname(spec.workspace), 'bwrap')
    writeFileSync(standIn, '#!/bin/sh\nreadlink "/proc/self/fd/$2" >&2; exit 1\n', { mode: 0o755 })
    await expect(bwrapDriver({ bwrapPath: standIn }).start(spec, soon())).rejects.toMatchObject({
      message: expect.stringMatching(/a cell does not start: (socket|pipe):\[\d+\]$/) as string,
    })
  })

  test('a cell whose lease cannot be written is refused, and nothing else of its maker fails', async () => {
    await using specs = trialSpecs()
    const spec = await specs.make()
    // Nothing that is thrown behind its back may end the process that made it: the test fails where something is.
    await expect(driver.start({ ...spec, scratch: '/proc' }, soon())).rejects.toThrow()
    await using cell = await driver.start(spec, soon())
    expect((await run(cell, ['/bin/true'])).code).toBe(0)
  })

  test('whoever finds the maker of a cell gone knows what to end, before anything runs in the cell', async () => {
    await using specs = trialSpecs()
    const spec = await specs.make()
    const lease = () => JSON.parse(readFileSync(join(spec.scratch, 'cell.json'), 'utf8')) as { processes: ProcessId[] }
    // A bwrap that says what it finds as soon as it was told what to do.
    const standIn = join(dirname(spec.workspace), 'bwrap')
    const script = `open my $told, "<&=", $ARGV[1]; <$told>; open my $lease, "<", "${join(spec.scratch, 'cell.json')}"; warn <$lease>, " $$\\n"; exit 1`
    writeFileSync(standIn, `#!/usr/bin/perl\n${script}\n`, { mode: 0o755 })
    const refused = await bwrapDriver({ bwrapPath: standIn })
      .start(spec, soon())
      .catch((error: unknown) => String(error))
    expect(refused).toMatch(/"pid":(\d+),.* \1$/)

    const cell = await driver.start(spec, soon())
    cell.spawn(['sleep', '60'], { env: { PATH: '/usr/bin:/bin' }, cwd: '/' })
    cell.spawn(['sleep', '60'], { env: { PATH: '/usr/bin:/bin' }, cwd: '/' })
    // Two each: what dies with this process, and the first process of the namespaces around the cell.
    await vi.waitFor(() => expect(lease().processes).toHaveLength(4))
    const { processes } = lease()
    expect(processes.filter(isGone)).toEqual([])
    await cell[Symbol.asyncDispose]()
    expect(processes.filter((each) => !isGone(each))).toEqual([])
    expect(readdirSync(spec.scratch)).toEqual([])
  })

  test('a cell under covers keeps its folders, its caches and its windows, and nothing of the wall is open in it', async () => {
    await using specs = trialSpecs()
    const spec = await specs.make()
    const base = dirname(spec.workspace)
    const [by, caches, path] = [join(base, 'by'), join(base, 'caches'), join(spec.workspace, 'a key.pem')]
    for (const file of [by, path]) writeFileSync(file, '')
    mkdirSync(caches, { mode: 0o777 })
    chmodSync(caches, 0o777)
    await using cell = await driver.start({ ...spec, caches, covers: [{ path, by }] }, soon())
    const script = `touch /workspace/w /home/agent/h /run/caches/c /tmp/t && echo written
      touch /run/windows/x /usr/x 2>/dev/null || echo refused; ls -A /sys /mnt 2>/dev/null | wc -l; ls /proc/self/fd | tr '\\n' ' '`
    expect((await run(cell, ['sh', '-c', script])).output).toBe('written\nrefused\n0\n0 1 2 3 ')
    expect([join(spec.workspace, 'w'), join(spec.home, 'h'), join(caches, 'c')].filter((file) => !existsSync(file))).toEqual([])
  })

  test('missing() tells what bwrap said when no cell starts', async () => {
    expect(await bwrapDriver({ bwrapPath: '/nonexistent' }).missing()).toMatchObject([{ what: 'bubblewrap is not installed' }])
    expect(await bwrapDriver({ bwrapPath: '/bin/false' }).missing()).toHaveLength(1)
  })
})
