import { chmod, chown, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { limitNames } from '@anchorhold/protocol/rungs'
import { describe, expect, test } from 'vitest'
import type { CellDriver, CellSpec } from './cell.ts'
import { readProc } from './limits/processes.ts'
import { run, type TrialSpecs, trialSpecs } from './trial.ts'

/** What the interface promises, run by every driver's test file. `cannot` names what a rung does not do, with the reason. */
export function cellContract(
  driver: CellDriver,
  cannot: Partial<Record<Promise_, string>> = {},
  { startMs = 20_000 }: { readonly startMs?: number } = {},
): void {
  const soon = () => AbortSignal.timeout(startMs)
  const promise = (name: Promise_, run: (specs: TrialSpecs) => Promise<void>) =>
    test.skipIf(cannot[name] !== undefined)(
      cannot[name] === undefined ? name : `${name} (not here: ${cannot[name]})`,
      async () => {
        await using specs = trialSpecs()
        await run(specs)
      },
    )

  describe(`${driver.rung}: a cell`, () => {
    promise('is not missing here', async () => {
      expect(await driver.missing()).toEqual([])
    })

    promise('gives a process exactly the environment and folder that were asked for', async ({ make }) => {
      const spec = await make()
      await using cell = await driver.start(spec, soon())
      const workspace = cell.place(spec.workspace)
      const { output } = await run(cell, ['env'], { cwd: workspace, env: { PATH: '/usr/bin:/bin', GREETING: 'good day' } })
      expect(
        output
          .trim()
          .split('\n')
          .filter((line) => !line.startsWith('PWD='))
          .sort(),
      ).toEqual(['GREETING=good day', 'PATH=/usr/bin:/bin'])
      expect((await run(cell, ['pwd', '-P'], { cwd: workspace })).output).toBe(`${workspace}\n`)
    })

    promise('joins the standard streams and tells the exit code', async ({ make }) => {
      await using cell = await driver.start(await make(), soon())
      const process = cell.spawn(['sh', '-c', 'cat; echo aside >&2; exit 7'], { env: path, cwd: '/' })
      process.stdin.end('through')
      expect(await Promise.all([text(process.stdout), text(process.stderr), process.exited])).toEqual(['through', 'aside\n', 7])
      expect(process.exitCode).toBe(7)
    })

    promise('ends what a command says with the command, whatever that leaves running', async ({ make }) => {
      await using cell = await driver.start(await make(), soon())
      const { output, code } = await run(cell, ['sh', '-c', 'sleep 1000 & head -c 300000 /dev/zero; echo aside; exit 3'])
      expect([output.length, output.slice(-6), code]).toEqual([300_006, 'aside\n', 3])
    })

    promise('tells 127 or the like for a program that is not there', async ({ make }) => {
      await using cell = await driver.start(await make(), soon())
      expect((await run(cell, ['no-such-program'])).code).not.toBe(0)
    })

    promise('brings a signal to the command itself', async ({ make }) => {
      await using cell = await driver.start(await make(), soon())
      const process = cell.spawn(['sh', '-c', 'trap "echo caught; exit 5" TERM; echo ready; while :; do sleep 0.05; done'], {
        env: path,
        cwd: '/',
      })
      let seen = ''
      for await (const chunk of process.stdout.setEncoding('utf8')) {
        seen += chunk
        if (seen === 'ready\n') expect(process.kill('SIGTERM')).toBe(true)
      }
      expect([seen, await process.exited, process.killed]).toEqual(['ready\ncaught\n', 5, true])
    })

    promise('tells 128 + the number for a process ended by a signal', async ({ make }) => {
      await using cell = await driver.start(await make(), soon())
      const process = cell.spawn(['sleep', '1000'], { env: path, cwd: '/' })
      process.kill('SIGKILL')
      expect(await process.exited).toBe(137)
    })

    promise('writes workspace and home as the user of the session', async ({ make }) => {
      const spec = await make()
      await using cell = await driver.start(spec, soon())
      const files = [join(spec.workspace, 'written'), join(spec.home, 'written')]
      expect(await run(cell, ['touch', ...files.map((file) => cell.place(file))])).toMatchObject({ code: 0 })
      for (const file of files) expect((await stat(file)).uid).toBe(spec.runAs?.uid ?? process.getuid?.())
    })

    promise('sees the windows and can talk through them', async ({ make }) => {
      const spec = await make()
      const windows = spec.windows ?? ''
      await using server = createServer((socket) => socket.end('from outside'))
      await new Promise<void>((resolve) => server.listen(join(windows, 'model.sock'), resolve))
      await chmod(join(windows, 'model.sock'), 0o666)
      await using cell = await driver.start(spec, soon())
      const client = `use IO::Socket::UNIX; my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or die "refused: $!"; print <$s>`
      expect(await run(cell, ['perl', '-e', client, cell.place(join(windows, 'model.sock'))])).toMatchObject({
        output: 'from outside',
      })
    })

    promise('sees extra mounts at their target', async ({ make }) => {
      const spec = await make()
      const source = join(dirname(spec.workspace), 'program')
      await writeFile(source, '#!/bin/sh\necho it runs\n', { mode: 0o755 })
      await using cell = await driver.start({ ...spec, mounts: [{ source, target: '/opt/agent/program' }] }, soon())
      expect((await run(cell, [cell.place(source)])).output).toBe('it runs\n')
    })

    promise('sees what covers a file and not the file', async ({ make }) => {
      const spec = await make()
      const base = dirname(spec.workspace)
      const [file, folder] = [join(base, 'empty-file'), join(base, 'empty-folder')]
      await mkdir(folder, { mode: 0o755 })
      await writeFile(file, 'instead\n', { mode: 0o444 })
      await mkdir(join(spec.workspace, 'deep/.ssh'), { recursive: true })
      for (const name of ['.env', 'deep/.ssh/id_rsa']) await writeFile(join(spec.workspace, name), 'hunter2\n', { mode: 0o666 })
      await writeFile(join(spec.workspace, 'shown'), 'shown\n', { mode: 0o644 })
      const covers = [
        { path: join(spec.workspace, '.env'), by: file },
        { path: join(spec.workspace, 'deep/.ssh'), by: folder },
      ]
      await using cell = await driver.start({ ...spec, covers }, soon())
      const script = `cat shown .env; ls -A deep/.ssh; cat deep/.ssh/id_rsa 2>/dev/null || echo refused
        echo more 2>/dev/null >> .env || echo refused; rm -rf .env deep/.ssh 2>/dev/null || echo refused; ln -sf .env way; cat way`
      const { output } = await run(cell, ['sh', '-c', script], { cwd: cell.place(spec.workspace) })
      expect(output).toBe('shown\ninstead\nrefused\nrefused\nrefused\ninstead\n')
      expect(await readFile(join(spec.workspace, '.env'), 'utf8')).toBe('hunter2\n')
    })

    promise('keeps covered what lies in a folder that is renamed', async ({ make }) => {
      const spec = await make()
      const { covers } = await hiddenBelow(spec)
      await using cell = await driver.start({ ...spec, covers }, soon())
      const sh = async (script: string) => (await run(cell, ['sh', '-c', script], { cwd: cell.place(spec.workspace) })).output
      // Each in a process of its own: what the first one moves, the next ones must not find bare.
      expect(await sh('mkdir -p deep/er && mv sub deep/er/sub && echo moved')).toBe('moved\n')
      expect(await sh('cat deep/er/sub/.env; cat deep/er/sub/.ssh/id_rsa 2>/dev/null || echo refused')).toBe('instead\nrefused\n')
      expect(await sh('mv deep other && mkdir -p sub && echo theirs > sub/.env && echo again')).toBe('again\n')
      expect(await sh('cat sub/.env other/er/sub/.env; mv other/er/sub/.env x 2>/dev/null || echo refused')).toBe(
        'theirs\ninstead\nrefused\n',
      )
      expect(await readFile(join(spec.workspace, 'other/er/sub/.env'), 'utf8')).toBe('hunter2\n')
    })

    promise('makes nothing outside where a link is in the way of a cover', async ({ make }) => {
      const spec = await make()
      const { covers } = await hiddenBelow(spec)
      const outside = join(dirname(spec.workspace), 'outside')
      await mkdir(outside)
      if (spec.runAs !== null) await chown(outside, spec.runAs.uid, spec.runAs.gid)
      await using cell = await driver.start({ ...spec, covers }, soon())
      const sh = async (script: string) => (await run(cell, ['sh', '-c', script], { cwd: cell.place(spec.workspace) })).output
      for (const [at, prefix] of ['/oldroot', '', '/newroot', '/proc/1/root', '/proc/self/root'].entries()) {
        // In one process: the next one may find the name missing, and make it.
        expect(await sh(`mv sub was${at} && ln -s ${prefix}${outside} sub && echo linked`)).toBe('linked\n')
        // Whether the next process can be started is not the point: what it leaves is.
        await run(cell, ['true'])
        expect([prefix, await readdir(outside)]).toEqual([prefix, []])
      }
      expect(await sh('cat was0/.env')).toBe('instead\n')
    })

    promise('finds in its caches what a cell before it left there, and another cell does not', async ({ make }) => {
      const spec = await make()
      const withCaches = { ...spec, caches: await cachesBeside(spec) }
      await using first = await driver.start(withCaches, soon())
      const file = first.place(join(withCaches.caches, 'npm/kept'))
      expect(await run(first, ['sh', '-c', `echo kept > ${file}`])).toMatchObject({ code: 0 })
      await using second = await driver.start({ ...(await make()), caches: withCaches.caches }, soon())
      expect((await run(second, ['cat', file])).output).toBe('kept\n')
      await using other = await driver.start(await make(), soon())
      expect((await run(other, ['sh', '-c', `cat ${file} 2>/dev/null || echo refused`])).output).toBe('refused\n')
    })

    promise('runs nothing out of its caches', async ({ make }) => {
      const spec = await make()
      const caches = await cachesBeside(spec)
      await using cell = await driver.start({ ...spec, caches }, soon())
      const program = cell.place(join(caches, 'npm/program'))
      const script = `cp /usr/bin/id ${program} && chmod 755 ${program} && cmp /usr/bin/id ${program} && echo there
        ${program} >/dev/null 2>&1 && echo RAN || echo refused`
      expect((await run(cell, ['sh', '-c', script])).output).toBe('there\nrefused\n')
    })

    promise('cannot write outside its folders', async ({ make }) => {
      await using cell = await driver.start(await make(), soon())
      for (const path of [
        '/owned',
        '/etc/owned',
        '/usr/owned',
        '/run/owned',
        '/run/windows/owned',
        '/home/owned',
        '/var/owned',
      ]) {
        const { output } = await run(cell, ['sh', '-c', `touch ${path} 2>/dev/null && echo written || echo refused`])
        expect([path, output]).toEqual([path, 'refused\n'])
      }
    })

    promise('has scratch space that anyone inside may write to', async ({ make }) => {
      await using cell = await driver.start(await make(), soon())
      for (const folder of ['/tmp', '/var/tmp', '/dev/shm']) {
        const { output } = await run(cell, [
          'sh',
          '-c',
          `cd ${folder} && mkdir made-by-a-test && rmdir made-by-a-test && echo written`,
        ])
        expect([folder, output]).toEqual([folder, 'written\n'])
      }
    })

    promise('cannot make a file among the devices', async ({ make }) => {
      await using cell = await driver.start(await make(), soon())
      const { output } = await run(cell, [
        'sh',
        '-c',
        'touch /dev/owned 2>/dev/null && echo written || echo refused; echo x > /dev/null',
      ])
      expect(output).toBe('refused\n')
    })

    promise('has no network but its own loopback', async ({ make }) => {
      await using cell = await driver.start(await make(), soon())
      const { output } = await run(cell, ['cut', '-d:', '-f1', '/proc/net/dev'])
      expect(output.split('\n').slice(2).join('').trim()).toBe('lo')
    })

    promise('hands no descriptor but the standard streams on', async ({ make }) => {
      await using cell = await driver.start(await make(), soon())
      const { output } = await run(cell, [
        'perl',
        '-e',
        'opendir my $d, "/proc/self/fd"; print join " ", sort grep { /\\d/ && $_ != fileno $d } readdir $d',
      ])
      expect(output).toBe('0 1 2')
    })

    promise('tells every limit once, and none that is not so', async ({ make }) => {
      await using cell = await driver.start(await make(), soon())
      expect(cell.limits.map(({ name }) => name)).toEqual([...limitNames])
      const { output } = await run(cell, ['sh', '-c', 'ulimit -Hn'])
      expect(cell.limits.find(({ name }) => name === 'open_files')).toMatchObject({
        enforcement: 'enforced',
        value: output.trim(),
      })
    })

    promise('runs several processes at a time', async ({ make }) => {
      await using cell = await driver.start(await make(), soon())
      const outputs = await Promise.all(['a', 'b', 'c', 'd'].map((each) => run(cell, ['echo', each])))
      expect(outputs.map(({ output }) => output)).toEqual(['a\n', 'b\n', 'c\n', 'd\n'])
    })

    promise('leaves nothing running when it is disposed of, which may be done twice', async ({ make }) => {
      const cell = await driver.start(await make(), soon())
      // Nobody else sleeps so long: the tests of another driver may run at the same time.
      const [one, two, three] = [1, 2, 3].map((digit) => `${process.pid}${digit}`)
      const script = `sleep ${one} & (sleep ${two} &) ; echo started; sleep ${three}`
      const sleeping = cell.spawn(['sh', '-c', script], { env: path, cwd: '/' })
      sleeping.stdout.setEncoding('utf8')
      for await (const chunk of sleeping.stdout) if (String(chunk).includes('started')) break
      await cell[Symbol.asyncDispose]()
      await cell[Symbol.asyncDispose]()
      expect(await sleeping.exited).toBe(137)
      expect(await runningSleeps([one!, two!, three!])).toEqual([])
      expect(() => cell.spawn(['true'], { env: path, cwd: '/' })).toThrow('the cell has ended')
    })

    promise('refuses to start where a folder is not there', async ({ make }) => {
      const spec = await make()
      await rm(spec.workspace, { recursive: true })
      await expect(driver.start(spec, soon())).rejects.toMatchObject({ code: 'cell_unavailable' })
    })

    promise('refuses to be started by root without a user of its own', async ({ make }) => {
      const spec = await make()
      if (process.getuid?.() !== 0) return
      await expect(driver.start({ ...spec, runAs: null }, soon())).rejects.toMatchObject({ code: 'cell_unavailable' })
    })
  })
}

type Promise_ =
  | 'is not missing here'
  | 'gives a process exactly the environment and folder that were asked for'
  | 'joins the standard streams and tells the exit code'
  | 'ends what a command says with the command, whatever that leaves running'
  | 'tells 127 or the like for a program that is not there'
  | 'brings a signal to the command itself'
  | 'tells 128 + the number for a process ended by a signal'
  | 'writes workspace and home as the user of the session'
  | 'sees the windows and can talk through them'
  | 'sees extra mounts at their target'
  | 'sees what covers a file and not the file'
  | 'keeps covered what lies in a folder that is renamed'
  | 'makes nothing outside where a link is in the way of a cover'
  | 'finds in its caches what a cell before it left there, and another cell does not'
  | 'runs nothing out of its caches'
  | 'cannot write outside its folders'
  | 'has scratch space that anyone inside may write to'
  | 'cannot make a file among the devices'
  | 'has no network but its own loopback'
  | 'hands no descriptor but the standard streams on'
  | 'tells every limit once, and none that is not so'
  | 'runs several processes at a time'
  | 'leaves nothing running when it is disposed of, which may be done twice'
  | 'refuses to start where a folder is not there'
  | 'refuses to be started by root without a user of its own'

const path = { PATH: '/usr/bin:/bin' }

/** A file and a folder to hide in `sub`, which belongs to the cell's user, and what is to be seen instead. */
async function hiddenBelow({ workspace, runAs }: CellSpec): Promise<Pick<CellSpec, 'covers'>> {
  const base = dirname(workspace)
  const [file, folder, sub] = [join(base, 'instead'), join(base, 'nothing'), join(workspace, 'sub')]
  await mkdir(folder, { mode: 0o755 })
  await writeFile(file, 'instead\n', { mode: 0o444 })
  await mkdir(join(sub, '.ssh'), { recursive: true })
  for (const name of ['.env', '.ssh/id_rsa']) await writeFile(join(sub, name), 'hunter2\n', { mode: 0o666 })
  if (runAs !== null) for (const path of [sub, join(sub, '.ssh')]) await chown(path, runAs.uid, runAs.gid)
  return {
    covers: [
      { path: join(sub, '.env'), by: file },
      { path: join(sub, '.ssh'), by: folder },
    ],
  }
}

/** As the daemon makes them: the folder is not the session's, and what is in it is. */
async function cachesBeside({ workspace, runAs }: CellSpec): Promise<string> {
  const caches = join(dirname(workspace), 'caches')
  await mkdir(caches, { mode: 0o755 })
  await mkdir(join(caches, 'npm'))
  if (runAs !== null) await chown(join(caches, 'npm'), runAs.uid, runAs.gid)
  return caches
}

async function runningSleeps(seconds: readonly string[]): Promise<string[]> {
  return (await readdir('/proc'))
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => (readProc(Number(pid), 'cmdline') ?? '').replaceAll('\0', ' ').trim())
    .filter((line) => seconds.some((each) => line === `sleep ${each}`))
}
