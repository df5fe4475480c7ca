import type { Event } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { once } from 'node:events'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { atWork, ended, held } from './both-doors.ts'
import { keepersOf, processesOf, stillAlive } from './host.ts'
import { command, type Installation, installation, isRoot, makeBase, root, start, textOf, until } from './installation.ts'
import { atTerminal } from './terminal.ts'

let it: Installation
const base = makeBase()
beforeAll(async () => {
  it = await installation()
})
afterAll(async () => {
  await it[Symbol.asyncDispose]()
  rmSync(base, { recursive: true, force: true })
})

const anchorhold = (state: string, ...args: readonly string[]) => start(process.execPath, [command, '--state', state, ...args])
const session = (id: SessionId) => it.api.getSession({ params: { id } })

function expectDense(log: readonly Event[]): void {
  expect(log.map(({ seq }) => seq)).toEqual(log.map((_, index) => index + 1))
}

describe('one daemon', () => {
  test('a second up on one state folder says that it runs already, and gives another link', async () => {
    const { pid } = await it.api.status()
    const told = await it.cli(['up'])
    expect(told).toMatchObject({ code: 0, out: expect.stringContaining(`Anchorhold is already running (pid ${pid})`) as string })
    expect(told.out).toMatch(/#login=anchor_/)
    expect(told.out).toContain('rehearsal')
    expect(told.out).toMatch(/rung +bwrap/)
  })

  test('up and status tell of a policy file with an unknown key, and what is in force in its place', async () => {
    const state = join(base, 'unknown-key')
    mkdirSync(join(state, 'config'), { recursive: true })
    writeFileSync(join(state, 'config/policy.yaml'), 'autonmy: full\n')
    const words = 'policy.yaml cannot be used: line 1: Unknown key "autonmy". Nothing is allowed until it is mended'
    try {
      const up = ['up', '--detach', '--port', '0']
      for (const args of [up, up, ['status'], ['doctor']])
        expect([args, (await anchorhold(state, ...args).ended).out]).toEqual([args, expect.stringContaining(words)])
    } finally {
      await anchorhold(state, 'down', '--all').ended
    }
  })

  test('up on another port than the one it runs on is refused, with what to do', async () => {
    const told = await it.cli(['up', '--port', '1'])
    expect(told.code).not.toBe(0)
    expect(told.err).toMatch(/Cannot start the daemon on port 1: it is already running at http:\/\/\S+ \(pid \d+\)/)
    expect(told.err).toContain('anchorhold down')
  })

  test('policy check of a file starts no daemon', async () => {
    const state = join(base, 'none')
    const file = join(base, 'bad.yaml')
    writeFileSync(file, 'max_concurrent: few\n')
    const { code, out } = await anchorhold(state, 'policy', 'check', file).ended
    expect({ code, out }).toEqual({
      code: 1,
      out: expect.stringContaining('bad.yaml:1:17: error: max_concurrent: this must be a number') as string,
    })
    expect(await anchorhold(state, 'status').ended).toMatchObject({ code: 8 })
  })

  test('a second daemon process on one state folder leaves, and the first one does not notice', async () => {
    const { pid } = await it.api.status()
    const told = await start(process.execPath, [join(root, 'dist/daemon.mjs'), '--state', it.state, '--port', '0']).ended
    expect(told).toMatchObject({ code: 75, out: expect.stringContaining('Another daemon uses the state folder') as string })
    expect(await it.api.status()).toMatchObject({ pid, gate: 'up' })
    expect(await it.cli(['status'])).toMatchObject({ code: 0, out: expect.stringContaining(`pid ${pid}`) as string })
  })
})

describe('what is killed comes back', () => {
  test('a keeper that is killed takes its cell along; the session says so, and the next prompt goes on', async () => {
    // What was said in a turn that ended is written down; the agent may not have got so far with what it was just told.
    const workspace = it.workspace()
    const { session: one } = await it.run('say the herring flies', { workspace })
    const { id } = one
    await it.api.prompt({ params: { id }, body: { text: `run \`${held}\`` } })
    await it.event(id, one.last_seq, ({ type }) => type === 'tool.started')
    const keeper = keepersOf(it.state, id)
    process.kill(keeper[0]!.pid, 'SIGKILL')
    await it.event(id, 0, ({ type }) => type === 'keeper.lost')
    await until(() => stillAlive(keeper).length === 0)
    expect(await session(id)).toMatchObject({ state: 'interrupted', why: expect.stringContaining('keeper died') as string })
    expect(await it.cli(['show', id])).toMatchObject({ out: expect.stringMatching(/state +interrupted/) as string })
    // Should it be told of its last prompt once more, the command in it ends at once.
    writeFileSync(join(workspace, 'go'), '')
    expect(textOf(await it.turn(id, 'what did I ask you'))).toContain('the herring flies')
    expect(await session(id)).toMatchObject({ state: 'ready' })
    expectDense(await it.log(id))
    await it.api.archive({ params: { id } })
  })

  test('a gate that is killed comes back, and the windows of live sessions with it', async () => {
    const { id, letGo } = await atWork(it, ' then say through a new gate')
    const [gate] = processesOf(it.state, ({ argv }) => argv.includes('/gate.mjs'))
    process.kill(gate!.pid, 'SIGKILL')
    await until(() => processesOf(it.state, ({ argv, pid }) => argv.includes('/gate.mjs') && pid !== gate!.pid)[0])
    letGo()
    expect(await it.event(id, 0, ended)).toMatchObject({ body: { reason: 'done' } })
    expect(textOf(await it.log(id))).toContain('through a new gate')
    await it.api.archive({ params: { id } })
  })
})

test('two commands that start a daemon at the same moment both find the one that there is then', async () => {
  const state = join(base, 'two')
  try {
    const told = await Promise.all([1, 2].map(() => anchorhold(state, 'up', '--detach', '--port', '0').ended))
    expect(told.map(({ code, err }) => [code, err])).toEqual([
      [0, ''],
      [0, ''],
    ])
    const urls = told.map(({ out }) => /http:\/\/localhost:\d+/.exec(out)?.[0])
    expect(urls[0]).toBe(urls[1])
  } finally {
    await anchorhold(state, 'down', '--all').ended
  }
})

describe('what cannot be is said clearly', () => {
  test.each([
    [['--copy', '--snapshot'], "option '--copy' cannot be used with option '--snapshot'"],
    [['--acl', '--chown'], "option '--acl' cannot be used with option '--chown'"],
    [['--timeout', 'abc'], 'It is not a whole number from 1 to 86400'],
  ])('run %j', async (flags, words) => {
    expect(await it.cli(['run', ...flags, 'say hello'])).toMatchObject({ code: 2, err: expect.stringContaining(words) as string })
  })

  test('a port that is taken', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as { port: number }
    const told = await anchorhold(join(base, 'p'), 'up', '--detach', '--port', String(port)).ended
    server.close()
    expect(told).toMatchObject({
      code: 1,
      err: expect.stringContaining(`Cannot listen on 127.0.0.1:${port}: another program does`) as string,
    })
    expect(told.err).toContain('--port')
    expect(told.err).not.toMatch(/\n {4}at /)
    await until(() => processesOf(join(base, 'p')).length === 0)
  })

  test('a state folder whose path is too long for sockets', async () => {
    const told = await anchorhold(join(base, 'x'.repeat(60)), 'up', '--detach', '--port', '0').ended
    expect(told).toMatchObject({ code: 1, err: expect.stringMatching(/its path is longer than \d+ bytes/) as string })
    expect(told.err).not.toMatch(/\n {4}at /)
  })

  test.each([
    ['a key that there is not', 'pory: 1', /pory/],
    ['a value that cannot be', 'port: lots', /port/],
    ['a limit that there is not', 'limits:\n  memry_gib: 1', /memry_gib/],
    ['a rung that there is not', 'rung: steel', /rung/],
    ['no YAML', 'port: [1', /config\.yaml/],
    ['a list', '- 1', /config\.yaml/],
  ])('a config.yaml with %s', async (_, text, names) => {
    const state = join(base, 'b')
    mkdirSync(join(state, 'config'), { recursive: true })
    writeFileSync(join(state, 'config/config.yaml'), text)
    const told = await anchorhold(state, 'up', '--detach', '--port', '0').ended
    expect(told.code).toBe(1)
    expect(told.err).toMatch(names)
    expect(told.err).toContain('config.yaml')
    expect(told.err).not.toMatch(/\n {4}at /)
  })
  test('a port that is no number', async () => {
    const told = await anchorhold(join(base, 'n'), 'up', '--detach', '--port', 'many').ended
    expect(told.code).not.toBe(0)
    expect(told.err).toMatch(/port.*many/)
    expect(told.err).not.toMatch(/\n {4}at /)
  })

  test('a state folder that cannot be made', async () => {
    writeFileSync(join(base, 'file'), '')
    for (const args of [
      ['up', '--detach'],
      ['sandbox', '-w', it.workspace(), '--', 'ls'],
    ])
      expect(await anchorhold(join(base, 'file/s'), ...args).ended).toEqual({
        code: 2,
        out: '',
        err: expect.stringMatching(/^anchorhold: Cannot make the state folder ".*": .*\n {2}Name one .*\n$/) as string,
      })
  })

  test('a folder that is gone from under whoever is in it', async () => {
    const gone = (...args: readonly string[]) =>
      start('bash', ['-c', 'mkdir "$0"; cd "$0"; rmdir "$0"; exec "$@"', join(base, 'gone'), process.execPath, command, ...args])
    for (const args of [['run', '-w', '.', 'say hello'], ['sandbox', '--', 'pwd'], ['claude']])
      expect(await gone('--state', it.state, ...args).ended).toEqual({
        code: 2,
        out: '',
        err: expect.stringMatching(
          /^anchorhold: Cannot find "\.": the folder that you are in is gone\n {2}Go to .*\n$/,
        ) as string,
      })
  })

  test('a folder whose name is empty, which is not the one that one is in', async () => {
    const told = await Promise.all([
      it.cli(['run', '-w', '', 'say hello']),
      it.cli(['sandbox', '-w', '', '--', 'true']),
      it.cli(['claude', '']),
      start(process.execPath, [command, '--state', '', 'status']).ended,
    ])
    for (const one of told) expect(one).toMatchObject({ code: 2, out: '', err: expect.stringMatching(/is empty/) as string })
  })

  test('an output that nothing can be written to', async () => {
    const told = await start('bash', ['-c', '"$@" > /dev/full', 'x', process.execPath, command, '--state', it.state, 'status'])
      .ended
    expect(told).toEqual({ code: 1, out: '', err: 'anchorhold: Cannot write to standard output: the disk is full\n' })
  })

  test.each([
    ['Ctrl-C', '\u0003', 130, /^NAME \(not shown\):$/],
    ['Ctrl-D', '\u0004', 2, /Nothing was given: the input ended\n {2}Type it/],
  ])('%s where a secret is asked for', async (_, key, code, screen) => {
    using person = atTerminal(process.execPath, [command, '--state', it.state, 'secret', 'add', 'NAME'])
    await person.sees('(not shown)')
    person.type(key)
    expect(await person.exited).toBe(code)
    expect(person.screen()).toMatch(screen)
  })

  test('codes and words of commands that cannot do what they are asked', async () => {
    const nowhere = join(base, 'nowhere')
    const [policyFile, log, folder, exported, event, spent] = await Promise.all([
      it.cli(['policy', 'check', '/nope']),
      it.cli(['verify', '/nope']),
      it.cli(['verify', base]),
      it.cli(['export', '--all', '/nope/x']),
      it.cli(['fork', 'last', '--at', '0']),
      it.cli(['usage', '--since', '2030-01-01']),
    ])
    for (const one of [policyFile, log, exported])
      expect(one.err).toMatch(/^anchorhold: Cannot .*: there is no such file or folder\n$/)
    expect(folder).toMatchObject({ code: 2, err: expect.stringContaining('it is a folder') as string })
    expect(event).toMatchObject({ code: 2, err: expect.stringContaining('"0" is not the number of an event') as string })
    expect(spent).toEqual({ code: 0, out: 'Nothing was spent since 2030-01-01.\n', err: '' })
    const [unknown, flag, lost, off, nobody, budget, empty, image, rung] = await Promise.all([
      it.cli(['dance']),
      it.cli(['ls', '--loud']),
      anchorhold(nowhere, 'ls').ended,
      anchorhold(nowhere, 'status').ended,
      it.cli(['show', 'ses_0000000000000000']),
      it.cli(['run', '--budget', 'lots', 'say hello']),
      it.cli(['run', '  ']),
      it.cli(['run', '--attach', '/etc/hostname', 'say hello']),
      it.cli(['run', '--rung', 'steel', 'say hello']),
    ])
    expect(unknown).toMatchObject({ code: 2, err: expect.stringContaining("unknown command 'dance'") as string })
    expect(flag).toMatchObject({ code: 2, err: expect.stringContaining('--loud') as string })
    expect(lost).toMatchObject({ code: 8, err: expect.stringContaining('anchorhold up') as string })
    expect(off).toMatchObject({ code: 8, out: expect.stringContaining('No daemon is running') as string })
    expect(nobody).toMatchObject({ code: 1, err: expect.stringContaining('There is no session') as string })
    expect(budget).toMatchObject({ code: 2, err: expect.stringContaining('"lots" is not an amount') as string })
    expect(empty).toMatchObject({ code: 2, err: expect.stringContaining('The prompt is empty') as string })
    expect(image).toMatchObject({ code: 2, err: expect.stringContaining('not a PNG') as string })
    expect(rung).toMatchObject({ code: 2, err: expect.stringContaining('steel') as string })
  })
})

describe('the rest of the command line', () => {
  test('every command explains itself', async () => {
    const help = await it.cli(['--help'])
    expect(help.code).toBe(0)
    expect(help.out).toContain('Exit codes:')
    const names = [...help.out.split('Commands:')[1]!.matchAll(/^ {2}([a-z-]+)/gm)]
      .map(([, name]) => name!)
      .filter((name) => name !== 'help')
    for (const wanted of 'up down status panic service run send watch ls show interrupt pause resume stop start fork archive requests allow deny usage search doctor provider token login-link'.split(
      ' ',
    ))
      expect(names).toContain(wanted)
    // A few at a time: each is a program of its own.
    for (let at = 0; at < names.length; at += 6) {
      await Promise.all(
        names.slice(at, at + 6).map(async (name) => {
          const { code, out } = await it.cli([name, '--help'])
          expect(code, name).toBe(0)
          expect(out, name).toMatch(new RegExp(`^Usage: anchorhold ${name} `))
        }),
      )
    }
    expect(await it.cli(['--version'])).toMatchObject({ code: 0, out: `${(await it.api.status()).version}\n` })
  })

  test('service install --print shows a unit that starts this daemon, and installs nothing', async () => {
    const told = await it.cli(['service', 'install', '--print'])
    expect(told.code).toBe(0)
    expect(told.out).toContain(`"${join(root, 'dist/daemon.mjs')}" "--state" "${it.state}"`)
    expect(told.out).toMatch(/^KillMode=process$/m)
    expect(told.out).toMatch(isRoot ? /^WantedBy=multi-user\.target$/m : /^WantedBy=default\.target$/m)
  })

  test('doctor and status say what is in force', async () => {
    const doctor = await it.cli(['doctor'])
    expect(doctor).toMatchObject({ code: 0, out: expect.stringMatching(/✓ bwrap/) as string })
    expect(doctor.out).toContain('enforced')
    expect(doctor.out).toMatch(/starts in \d+ ms, seen \d{4}-\d\d-\d\d/)
    expect(await it.cli(['doctor', '--disk'])).toMatchObject({ code: 0, out: expect.stringMatching(/sessions +\d/) as string })
    const status = JSON.parse((await it.cli(['status', '--json'])).out) as object
    expect(status).toMatchObject({
      running: true,
      rung: 'bwrap',
      rung_available: true,
      provider: 'rehearsal',
      simulated: true,
      gate: 'up',
      credentials_trouble: null,
    })
    const credentials = join(it.state, 'config/credentials.yaml')
    writeFileSync(credentials, 'credentials:\n  - host: a.example\n')
    expect((await it.cli(['status'])).out).toMatch(/credentials\.yaml.*no session starts but with --network none/)
    const before = (await it.cli(['ls', '--json'])).out
    expect(await it.cli(['run', 'say hi'])).toMatchObject({ code: 7, err: expect.stringContaining('credentials.yaml') as string })
    rmSync(credentials)
    const err = expect.stringMatching(/There is no toolchain "nope"\n.*anchorhold doctor/) as string
    expect(await it.cli(['run', '--toolchain', 'nope', 'say hi'])).toMatchObject({ code: 7, err })
    expect((await it.cli(['ls', '--json'])).out).toBe(before)
  })

  test('fork, provider test and expose check say the same to programs', async () => {
    const json = async (code: number, ...args: readonly string[]) => {
      const told = await it.cli([...args, '--json'])
      expect(told).toMatchObject({ code, err: '' })
      return JSON.parse(told.out) as unknown
    }
    const { session: one } = await it.run('say one')
    expect(await json(0, 'fork', one.id)).toMatchObject({ forked_from: one.id, state: 'ready' })
    expect(await json(0, 'provider', 'test', 'rehearsal')).toMatchObject({ verdict: 'ok' })
    const url = 'https://agents.example'
    const findings = [
      { ok: false, what: expect.stringContaining(`not as ${url}`) as string, remedy: expect.any(String) as string },
    ]
    expect(await json(1, 'expose', 'check', '--url', url)).toEqual({ url, findings })
  })

  test('watch says when it begins after what there is', async () => {
    const { session } = await it.run('say one')
    const { length } = await it.log(session.id)
    const far = String(length + 5)
    const watching = it.start(['watch', '--json', '--after', far, session.id])
    await until(() =>
      watching.err.includes(`${session.id} has only ${length} events; waiting for what comes after number ${far}`),
    )
    watching.kill('SIGINT')
    expect(await watching.ended).toMatchObject({ code: 0, out: '' })
    await it.cli(['archive', session.id])
    const over = await it.cli(['watch', '--json', '--after', '1000', session.id])
    expect(over).toMatchObject({ code: 0, out: '', err: expect.stringContaining('it is archived, and no more come') as string })
  })

  test('watch ends quietly with what happens after its reader has gone', async () => {
    const { session: one } = await it.run('say one')
    const line = [process.execPath, command, '--state', it.state, 'watch', '--json', one.id].map((word) => `'${word}'`)
    const watching = start('bash', [
      '-c',
      `${line.join(' ')} | { head -n 1 > /dev/null; echo gone; } >&2; echo "\${PIPESTATUS[0]}"`,
    ])
    await until(() => watching.err.includes('gone'))
    await it.turn(one.id, 'say two')
    expect(await watching.ended).toMatchObject({ code: 0, out: '0\n', err: 'gone\n' })
  })
})
