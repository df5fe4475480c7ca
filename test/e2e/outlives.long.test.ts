import type { Event } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { once } from 'node:events'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { atWork, ended, held } from './both-doors.ts'
import { keepersOf, processesOf, stillAlive } from './host.ts'
import { command, type Installation, installation, makeBase, start, textOf, until } from './installation.ts'

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

describe('what outlives what', () => {
  test('down leaves agents at work; a new up finds them and has the whole log', async () => {
    const { id, letGo } = await atWork(it)
    const before = await it.log(id)
    // Keeper, cell and agent last; what the tool runs comes and goes.
    const keeper = keepersOf(it.state, id).filter(({ argv }) => /\/keeper\.mjs|--input-format|It is here/.test(argv))
    expect(keeper.length).toBeGreaterThan(2)
    const told = await it.cli(['down'])
    expect(told.out).toContain('Still running: 1 agent in its cell')
    expect(told.out).toContain('anchorhold down --all')
    expect(await it.cli(['ls'])).toMatchObject({ code: 8 })
    expect(stillAlive(keeper)).toHaveLength(keeper.length)
    letGo()
    // The agent goes on by itself: its tool ends while nobody watches.
    await until(() => keepersOf(it.state, id).every(({ argv }) => !argv.includes('until [ -e go ]')))
    await it.up()
    expect(await it.event(id, before.length, ended)).toMatchObject({ body: { reason: 'done' } })
    const log = await it.log(id)
    expectDense(log)
    expect(log.slice(0, before.length)).toEqual(before)
    expect(keepersOf(it.state, id)[0]?.pid).toBe(keeper[0]?.pid)
    expect(textOf(await it.turn(id, 'what did I ask you'))).toContain(held)
    await it.api.archive({ params: { id } })
  })

  test('a daemon that was killed has lost nothing when it comes back', async () => {
    const { id, letGo } = await atWork(it, ' then say all is well')
    const { pid } = await it.api.status()
    process.kill(pid, 'SIGKILL')
    await until(() => processesOf(it.state).every((one) => one.pid !== pid))
    // Whoever has taken its place at its address meanwhile is told nothing.
    const heard: string[] = []
    const impostor = createServer((socket) => void socket.on('data', (data) => heard.push(String(data))))
    await once(impostor.listen(Number(new URL(it.url).port), '127.0.0.1'), 'listening')
    expect(await it.cli(['rename', id, 'told to nobody else'])).toMatchObject({ code: 8 })
    impostor.close()
    expect(heard).toEqual([])
    letGo()
    await it.up()
    expect(await it.event(id, 0, ended)).toMatchObject({ body: { reason: 'done' } })
    const log = await it.log(id)
    expectDense(log)
    expect(textOf(log)).toContain('all is well')
    expect(log.filter(({ type }) => type === 'keeper.started')).toHaveLength(1)
    await it.api.archive({ params: { id } })
  })

  test('a daemon that was killed is where it was when another command starts it', async () => {
    const state = join(base, 'k')
    const free = createServer().listen(0, '127.0.0.1')
    await once(free, 'listening')
    const { port } = free.address() as { port: number }
    await new Promise((resolve) => free.close(resolve))
    const given = ['--port', String(port), '--public-url', 'https://agents.example']
    expect(await anchorhold(state, 'up', '--detach', ...given).ended).toMatchObject({ code: 0 })
    const endpoint = () => JSON.parse(readFileSync(join(state, 'daemon.json'), 'utf8')) as { url: string; pid: number }
    const { pid } = endpoint()
    process.kill(pid, 'SIGKILL')
    await until(() => processesOf(state).every((one) => one.pid !== pid))
    expect(await anchorhold(state, 'run', '--detach', 'say hi').ended).toMatchObject({ code: 0 })
    expect(endpoint()).toMatchObject({ url: `http://127.0.0.1:${port}` })
    const status = JSON.parse((await anchorhold(state, 'status', '--json').ended).out) as { url: string }
    expect(status.url).toBe('https://agents.example')
    expect(await anchorhold(state, 'down', '--all').ended).toMatchObject({ code: 0 })
  })

  test('down --all leaves no process, also of a session that is just being made', async () => {
    const { id } = await atWork(it)
    const made = await it.api.createSession({ body: { prompt: { text: `run \`${held}\`` } } })
    const all = processesOf(it.state)
    expect(all.length).toBeGreaterThan(4)
    expect(await it.cli(['down', '--all'])).toMatchObject({
      code: 0,
      out: expect.stringContaining('Nothing is left running') as string,
    })
    await until(() => processesOf(it.state).length === 0)
    expect(await it.cli(['down'])).toMatchObject({ code: 0, out: 'No daemon is running.\n' })
    // What was asked for and not yet begun is taken up again; what was cut short is not.
    await it.up()
    expect(await session(id)).toMatchObject({ state: 'ready', turns: 1 })
    await it.api.archive({ params: { id: made.id } })
  })

  test('Ctrl-C of up ends the daemon and says what is left', async () => {
    const state = join(base, 'c')
    const up = anchorhold(state, 'up', '--port', '0')
    await until(() => up.out.includes('Ctrl-C ends the daemon'))
    expect(up.out).toMatch(/log in +http:\/\/localhost:\d+\/#login=anchor_/)
    expect(await anchorhold(state, 'run', 'say hello').ended).toMatchObject({ code: 0 })
    up.kill('SIGINT')
    const told = await up.ended
    expect(told.code).toBe(0)
    expect(told.out).toContain('The daemon has ended. Still running: 1 agent in its cell')
    expect(told.out).toContain('anchorhold down --all')
    expect(processesOf(state).length).toBeGreaterThan(0)
    // Without a daemon, too: what stops every agent starts one to reach them, and leaves nothing behind.
    const launched = anchorhold(
      state,
      'sandbox',
      '--copy',
      '-w',
      mkdtempSync(join(base, 'folder-')),
      '--',
      'sh',
      '-c',
      'echo inside; sleep 600',
    )
    await until(() => launched.out.includes('inside'))
    const panic = await anchorhold(state, 'panic').ended
    expect(panic).toMatchObject({
      code: 0,
      out: expect.stringContaining('1 session was stopped, and 1 launched sandbox') as string,
    })
    expect((await launched.ended).code).not.toBe(0)
    await until(() => processesOf(state).length === 0)
    const again = await anchorhold(state, 'panic').ended
    expect(again).toMatchObject({ code: 0, out: expect.stringMatching(/no agent is left|^0 sessions were stopped/) as string })
    // It holds until somebody lifts it, also over a restart.
    const refused = await anchorhold(state, 'run', 'say hello').ended
    expect([refused.code, refused.err]).toEqual([expect.any(Number), expect.stringContaining('anchorhold panic --lift')])
    expect((await anchorhold(state, 'status').ended).out).toContain('nothing runs until it is lifted')
    expect(await anchorhold(state, 'panic', '--lift').ended).toMatchObject({ code: 0 })
    expect(await anchorhold(state, 'run', 'say hello').ended).toMatchObject({ code: 0 })
    expect(await anchorhold(state, 'down', '--all').ended).toMatchObject({ code: 0 })
  })

  test('watch follows a session from any number on, across a restart of the daemon', async () => {
    const { id } = await it.api.createSession({ body: { prompt: { text: 'say one' } } })
    await it.event(id, 0, ended)
    const watching = it.start(['watch', '--json', '--after', '3', id])
    const seen = () =>
      watching.out
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line) as Event)
    await until(() => seen().some(ended))
    expect(await it.cli(['down'])).toMatchObject({ code: 0 })
    await it.up()
    await it.turn(id, 'say two')
    await until(() => seen().filter(ended).length === 2)
    watching.kill('SIGINT')
    expect(await watching.ended).toMatchObject({ code: 0 })
    expect(seen().map(({ seq }) => seq)).toEqual(
      (await it.log(id))
        .map(({ seq }) => seq)
        .filter((seq) => seq > 3)
        .slice(0, seen().length),
    )
    expect(readFileSync(join(it.state, 'daemon.log'), 'utf8')).not.toMatch(/\bbug [0-9a-f]{12}:/)
  })
})
