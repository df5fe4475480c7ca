import type { Event } from '@anchorhold/protocol/events'
import { type SessionId, uuidOfPrompt } from '@anchorhold/protocol/ids'
import type { OnCrash } from '@anchorhold/protocol/sessions'
import { join } from 'node:path'
import { globSync, readFileSync } from 'node:fs'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { ended, held, letGo, reason, sessionsOf } from './both-doors.ts'
import { keepersOf, processesOf } from './host.ts'
import { type Installation, installation, textOf, until } from './installation.ts'

let it: Installation
beforeAll(async () => {
  it = await installation()
})
afterAll(async () => {
  await it[Symbol.asyncDispose]()
})
const { session, last, archiveAll } = sessionsOf(() => it)
afterEach(archiveAll)

const lost = ({ type }: Event) => type === 'keeper.lost'
const causes = (log: readonly Event[]) => log.flatMap((event) => (event.type === 'turn.started' ? [event.body.cause] : []))
const create = async (text: string, on_crash: OnCrash, workspace = it.workspace()) =>
  (await it.api.createSession({ body: { workspace, on_crash, prompt: { text } } })).id
const keeperOf = (id: SessionId) => keepersOf(it.state, id)[0]!.pid
const killKeeper = async (id: SessionId) => {
  const before = await last(id)
  process.kill(keeperOf(id), 'SIGKILL')
  return it.event(id, before, lost)
}
/** A command that each run of the agent waits in, so that it can be killed there. */
const waits = Array.from({ length: 6 }, () => `run \`${held}\``).join(' then ')

test('a turn that a crash cut short is resumed by itself where the session is told to', async () => {
  const workspace = it.workspace()
  const id = await create(`say before, then run \`${held}\` then say and after it`, 'resume', workspace)
  await it.event(id, 0, ({ type }) => type === 'tool.started')
  await written(id)
  const { seq } = await killKeeper(id)
  const resumed = await it.event(id, seq, ({ type }) => type === 'turn.started')
  expect(resumed.body).toMatchObject({ cause: 'resume', prompt: expect.stringMatching(/^prm_/) as string })
  letGo(workspace)
  expect(reason(await it.event(id, seq, ended))).toBe('done')
  const log = await it.log(id)
  expect(log.find((event) => event.type === 'session.state' && event.body.to === 'interrupted')).toMatchObject({
    body: { goes_on: true },
  })
  expect(textOf(log.filter((event) => event.seq > seq))).toContain('and after it')
  // Nobody said anything to it, and the agent got its prompt once.
  expect(log.filter(({ type }) => type === 'prompt' || type === 'prompt.again')).toHaveLength(1)
  expect(causes(log)).toEqual(['prompt', 'resume'])
  expect(await session(id)).toMatchObject({ state: 'ready', on_crash: 'resume', turns: 2 })
})

test('a command that follows a session follows it over a crash, and a text that was cut is kept', async () => {
  const told = it.cli(['run', '--on-crash', 'resume', '--json', 'stream 60 words'])
  const { id } = await until(async () => (await it.api.listSessions()).sessions[0])
  await it.event(id, 0, ({ type }) => type === 'keeper.started')
  // Looked for while nothing is said yet: that may take longer than the words.
  const keeper = keeperOf(id)
  await it.follow(id, 0, ({ live }) => live?.type === 'text.delta' && live.offset > 20)
  process.kill(keeper, 'SIGKILL')
  expect(await told).toMatchObject({ code: 0 })
  const texts = (await it.log(id)).flatMap((event) => (event.type === 'text' ? [event.body] : []))
  expect(texts[0]).toMatchObject({ partial: true })
  expect(texts.at(-1)!.text.startsWith(texts[0]!.text)).toBe(true)
})

test('an agent that dies is taken up again like a keeper that does', async () => {
  const workspace = it.workspace()
  const id = await create(`run \`${held}\` then say and after it`, 'resume', workspace)
  await it.event(id, 0, ({ type }) => type === 'tool.started')
  process.kill(agentOf(id), 'SIGKILL')
  letGo(workspace)
  await it.event(id, 0, (event) => event.type === 'turn.ended' && event.body.reason === 'crashed')
  await it.event(id, 0, (event) => event.type === 'turn.ended' && event.body.reason === 'done')
  expect(causes(await it.log(id))).toEqual(['prompt', 'resume'])
})

test('a session that crashes over and over is resumed three times, and then waits and says so', async () => {
  const id = await create(waits, 'resume')
  for (let turn = 1, after = 0; turn <= 4; turn++) {
    await it.event(id, after, ({ type }) => type === 'tool.started')
    after = (await killKeeper(id)).seq
  }
  const given = await it.event(id, 0, (event) => event.type === 'session.state' && event.body.why?.includes('3 times') === true)
  expect(given.body).not.toHaveProperty('goes_on')
  await sessionsOf(() => it).meanwhile()
  expect(await session(id)).toMatchObject({
    state: 'interrupted',
    why: expect.stringContaining('waits for the next prompt') as string,
  })
  expect(keepersOf(it.state, id)).toEqual([])
  expect(causes(await it.log(id))).toEqual(['prompt', 'resume', 'resume', 'resume'])
})

test('what dies with its daemon is resumed when the daemon comes back', async () => {
  const workspace = it.workspace()
  const id = await create(`run \`${held}\` then say and after it`, 'resume', workspace)
  await it.event(id, 0, ({ type }) => type === 'tool.started')
  const { pid } = JSON.parse(readFileSync(join(it.state, 'daemon.json'), 'utf8')) as { pid: number }
  for (const one of [pid, ...keepersOf(it.state, id).map((keeper) => keeper.pid)]) kill(one)
  await until(() => processesOf(it.state).every((one) => one.pid !== pid))
  letGo(workspace)
  await it.up()
  await it.event(id, 0, (event) => event.type === 'turn.ended' && event.body.reason === 'done')
  expect(causes(await it.log(id))).toEqual(['prompt', 'resume'])
})

test.each(['resume', 'wait'] as const)(
  'a prompt that an agent was given and did not live to write down reaches the next one (%s)',
  async (onCrash) => {
    const id = await create('say the herring flies', onCrash)
    const { seq } = await it.event(id, 0, ended)
    // It cannot read what it is sent from here on.
    process.kill(agentOf(id), 'SIGSTOP')
    await it.api.prompt({ params: { id }, body: { text: 'say the cod swims' } })
    await it.event(id, seq, ({ type }) => type === 'turn.started')
    await killKeeper(id)
    if (onCrash === 'wait') {
      expect(await session(id)).toMatchObject({ state: 'interrupted' })
      await it.turn(id, 'say the crab walks')
    } else await it.event(id, seq, (event) => event.type === 'text' && event.body.text.includes('the cod swims'))
    await until(async () => (await session(id)).state === 'ready')
    const log = await it.log(id)
    expect(log.filter(({ type }) => type === 'prompt.again')).toHaveLength(1)
    // Where a person goes on, it is theirs to say how: the lost prompt is known, and starts nothing by itself.
    expect(causes(log)).toEqual(['prompt', 'prompt', onCrash === 'wait' ? 'prompt' : 'resume'])
    const recall = textOf(await it.turn(id, 'what did I ask you'))
    for (const words of ['the herring flies', 'the cod swims']) expect(recall).toContain(words)
    expect(recall.split('the cod swims')).toHaveLength(2)
  },
)

/** Waits until the agent has written its prompt down, which it does a while after it has begun to work. */
async function written(id: SessionId): Promise<void> {
  const { body } = (await it.log(id)).find((event) => event.type === 'prompt') as Event & { type: 'prompt' }
  const files = () => globSync(join(it.state, 'sessions', id, 'home/.claude/projects/*/*.jsonl'))
  await until(() => files().some((file) => readFileSync(file, 'utf8').includes(uuidOfPrompt(body.id))))
}
/** The agent's own process in the session's cell: those that it is just starting may be called as it is. */
const agentOf = (id: SessionId) =>
  keepersOf(it.state, id).find(({ argv }) => argv.includes('--input-format') && !argv.includes('bwrap'))!.pid
function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has gone with another.
  }
}
