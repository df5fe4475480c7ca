import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { bothDoors, ended, letGo, reason, types, sessionsOf } from './both-doors.ts'
import { command, type Installation, installation, textOf, until } from './installation.ts'
import { atTerminal } from './terminal.ts'

let it: Installation
const scratch = mkdtempSync(join(tmpdir(), 'ah-turns-'))
beforeAll(async () => {
  it = await installation()
})
afterAll(async () => {
  await it[Symbol.asyncDispose]()
  rmSync(scratch, { recursive: true })
})

const { cli, http } = bothDoors(() => it)
const doors = [cli, http] as const
const { afterTurn, busy, last, request, session, archiveAll } = sessionsOf(() => it)
afterEach(archiveAll)

describe.each(doors)('by $name', (door) => {
  test('interrupt ends the turn, and the next prompt is taken up', async () => {
    const { id } = await busy(door)
    const before = await last(id)
    await door.verb('interrupt', id)
    expect(reason(await it.event(id, before, ended))).toBe('interrupted')
    expect(textOf(await it.turn(id, 'say after that'))).toContain('after that')
    expect(await session(id)).toMatchObject({ state: 'ready', turns: 2 })
  })

  test('a prompt in mid-turn steers it; a queued one waits for its end', async () => {
    const { id, workspace } = await busy(door)
    await door.send(id, 'say I was queued', { queue: true })
    await door.send(id, 'say I was steered')
    // The one that steers has been handed over; the one in the queue has not, though it came first.
    await it.event(id, 0, (event) => event.type === 'prompt' && event.body.text.includes('steered'))
    expect(types(await it.log(id), 'prompt', 'turn.started', 'turn.ended')).toEqual(['prompt', 'turn.started', 'prompt'])
    letGo(workspace)
    await it.event(id, 0, (event) => event.type === 'text' && event.body.text.includes('I was queued'))
    const log = await until(async () => {
      const all = await it.log(id)
      return all.filter(ended).length === 2 ? all : null
    })
    expect(types(log, 'prompt', 'turn.started', 'turn.ended')).toEqual([
      ...['prompt', 'turn.started', 'prompt', 'turn.ended'],
      ...['prompt', 'turn.started', 'turn.ended'],
    ])
    expect(log.filter(ended).map(reason)).toEqual(['done', 'done'])
    const [first, second] = [log.findIndex(ended), log.findLastIndex(ended)]
    expect(textOf(log.slice(0, first))).toContain('I was steered')
    expect(textOf(log)).not.toContain('I do not know how to do this')
    expect(textOf(log.slice(first, second))).toContain('I was queued')
  })

  test('a question is answered, or refused with a reason that the agent reads', async () => {
    const id = await door.create({ prompt: { text: 'ask me whether to use tabs or spaces' } })
    const first = await request(id, 0)
    expect(await session(id)).toMatchObject({ state: 'waiting', open_requests: 1 })
    expect(await door.requests()).toContain(first.body.id)
    expect(await door.requests()).toContain('spaces')
    await door.answer(first.body.id, { allow: '2' })
    expect(textOf(await afterTurn(id, 0))).toContain('You answered “spaces”')
    await expect(door.answer(first.body.id, { allow: '1' })).rejects.toThrow('already settled')
    expect(await door.requests()).not.toContain(first.body.id)

    const before = await last(id)
    await door.send(id, 'ask me whether to use tabs or spaces')
    await door.answer((await request(id, before)).body.id, { deny: 'the moon is full' })
    expect(textOf(await afterTurn(id, before))).toContain('the moon is full')
    expect(await session(id)).toMatchObject({ state: 'ready', open_requests: 0 })
  })

  test('a plan is carried out when it is allowed, and not when it is denied', async () => {
    const workspace = it.workspace()
    const id = await door.create({ workspace, plan: true, prompt: { text: 'create first.txt saying hi' } })
    const first = await request(id, 0)
    expect(first.body.action).toMatchObject({ kind: 'plan', plan: expect.stringContaining('create first.txt') as string })
    expect(existsSync(join(workspace, 'first.txt'))).toBe(false)
    await door.answer(first.body.id, { deny: 'not on a Sunday' })
    expect(textOf(await afterTurn(id, 0))).toContain('not on a Sunday')
    expect(existsSync(join(workspace, 'first.txt'))).toBe(false)

    const before = await last(id)
    await door.send(id, 'plan to create second.txt saying hi')
    await door.answer((await request(id, before)).body.id, { allow: null })
    const log = await afterTurn(id, before)
    expect(reason(log.findLast(ended)!)).toBe('done')
    expect(readFileSync(join(workspace, 'second.txt'), 'utf8')).toBe('hi\n')
  })

  test('an image reaches the agent; an interrupted question is withdrawn', async () => {
    const png = join(scratch, 'two-by-three.png')
    writeFileSync(
      png,
      Buffer.from(
        'iVBORw0KGgoAAAANSUhEUgAAAAIAAAADCAIAAAA2iEnWAAAAEElEQVR4nGP4z8AARAwQCgAf7gP9i18U1AAAAABJRU5ErkJggg==',
        'base64',
      ),
    )
    const id = await door.create({ prompt: { text: 'say hello' } })
    await it.event(id, 0, ended)
    const before = await last(id)
    await door.send(id, 'say what this is', { png })
    const log = await afterTurn(id, before)
    expect(textOf(log)).toContain('I see one image: image/png, 2×3')
    expect(log.find(({ type }) => type === 'prompt')).toMatchObject({ body: { images: 1 } })

    const asked = await last(id)
    await door.send(id, 'ask me whether to go on')
    const { body } = await request(id, asked)
    await door.verb('interrupt', id)
    expect(reason(await it.event(id, asked, ended))).toBe('interrupted')
    expect(await it.api.getRequest({ params: { id: body.id } })).toMatchObject({ answer: { decision: 'withdrawn' } })
    await expect(door.answer(body.id, { deny: 'too late' })).rejects.toThrow('already settled')
  })
})

test('an interrupt ends what steers the turn as well, though the agent had not come to it, and keeps the agent', async () => {
  const { id, workspace } = await busy(http)
  const before = await last(id)
  await http.send(id, 'run `touch after-the-interrupt; sleep 60`')
  await it.event(id, before, ({ type }) => type === 'prompt')
  await http.verb('interrupt', id)
  expect(reason(await it.event(id, before, ended))).toBe('interrupted')
  expect(textOf(await it.turn(id, 'say after that'))).toContain('after that')
  const log = await it.log(id)
  expect(types(log, 'keeper.started', 'keeper.left')).toEqual(['keeper.started'])
  expect(types(log, 'turn.started', 'turn.ended')).toEqual(['turn.started', 'turn.ended', 'turn.started', 'turn.ended'])
  expect(existsSync(join(workspace, 'after-the-interrupt'))).toBe(false)
})

test('who runs a turn at a terminal is told that it waits for an answer, where to give it, and that it went on', async () => {
  const asked = ['run', '--autonomy', 'restricted', 'run `echo gone-$((1))-on`']
  using person = atTerminal(process.execPath, [command, '--state', it.state, ...asked], { columns: 160 })
  const screen = await person.sees(/Allow req_\w+\? \[y, /)
  const [, id] = /it waits for your answer: anchorhold allow (req_\w+)/.exec(screen) ?? []
  expect(screen).toContain(`or in the browser: http://localhost:${new URL(it.url).port}/inbox`)
  expect(screen.match(/it waits for your answer/g)).toHaveLength(1)
  // Somebody else is quicker: the question goes, and what comes of it is said.
  await it.api.answerRequest({ params: { id: id! }, body: { decision: 'allow' } })
  expect(await person.sees('✓ done')).toMatch(/allowed by owner: it goes on\n[^]*gone-1-on/)
  expect(await person.exited).toBe(0)
})

test('Ctrl-C where something is asked interrupts the turn', async () => {
  const asked = ['run', '--autonomy', 'restricted', 'run `echo never`']
  using person = atTerminal(process.execPath, [command, '--state', it.state, ...asked], { columns: 160 })
  await person.sees(/Allow req_\w+\? \[y, /)
  person.type('\u0003')
  await person.sees('interrupted')
  expect(await person.exited).toBe(130)
})

test('Ctrl-C at a prompt that the agent has not been given takes that back, and lets go on what runs', async () => {
  const { id } = await busy(http)
  const sent = it.start(['send', '--json', '--queue', id, 'say never'])
  await until(() => sent.out.includes('"prompt.queued"'))
  sent.kill('SIGINT')
  expect(await sent.ended).toMatchObject({ code: 130 })
  expect(await it.api.getSession({ params: { id } })).toMatchObject({ state: 'working', queued_prompts: 0 })
  // Somebody else takes it back.
  const other = it.start(['send', '--json', '--queue', id, 'say never'])
  await until(() => other.out.includes('"prompt.queued"'))
  const [prompt] = (await it.log(id)).flatMap((event) => (event.type === 'prompt.queued' ? [event.body.id] : [])).toReversed()
  await it.api.dropPrompt({ params: { id, prompt: prompt! } })
  expect(await other.ended).toMatchObject({ code: 130 })
  await http.verb('interrupt', id)
})

test('send under a key that was used before shows what became of it', async () => {
  const { session } = await it.run('say one')
  const send = () => it.cli(['send', '--key', 'the same', session.id, 'say two'])
  const [first, again] = [await send(), await send()]
  for (const one of [first, again]) expect(one).toMatchObject({ code: 0, out: expect.stringContaining('two') as string })
  expect((await it.log(session.id)).filter(({ type }) => type === 'prompt')).toHaveLength(2)
})
