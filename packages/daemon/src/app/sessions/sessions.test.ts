import type { NewEvent } from '@anchorhold/protocol/events'
import { Failure } from '@anchorhold/protocol/failures'
import { firstOwner, newPromptId, newRequestId, type SessionId, uuidOfPrompt } from '@anchorhold/protocol/ids'
import { existsSync, mkdirSync, readdirSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { fakeAccessLists } from '../../workspace/fake-access-lists.ts'
import { isUnsettled } from '../../workspace/unsettled.ts'
import { createSession } from './create-session.ts'
import { deliver, deliverRest, deliverSoon } from '../prompts/deliver.ts'
import { dropPrompt } from '../prompts/drop.ts'
import { forkName, forkSession } from './fork-session.ts'
import { archive, finishArchives, purge } from './archive.ts'
import { keeperStart } from '../keepers/keeper-start.ts'
import type { Runtime } from '../../processes/runtime.ts'
import { change, interrupt, pause, resume, start, stop, warm } from './lifecycle.ts'
import { liftPanic, panic, panicOver } from '../house/panic.ts'
import { prompt } from '../prompts/prompt.ts'
import { listSessions } from './read.ts'
import { inCell } from '../workspace/workspace.ts'
import { owner, record, type TestParts, testParts } from '../test-parts.ts'

let parts: TestParts
beforeEach(() => {
  parts = testParts()
})
afterEach(() => {
  vi.unstubAllEnvs()
  parts[Symbol.dispose]()
})

const create = (input: Parameters<typeof createSession>[2] = {}) => createSession(parts, owner, input)
const allSessions = () => parts.store.sessions.list({ archived: false, state: null, before: null, limit: 10, seenBy: null })
const stateOf = (id: SessionId) => parts.store.sessions.get(id)?.state
const started: NewEvent = {
  type: 'keeper.started',
  body: { rung: 'bwrap', agent: 'claude', agent_version: '1', limits: [], resumed: false },
}
const turn: NewEvent = { type: 'turn.started', body: { cause: 'prompt', prompt: null } }
/** A session with a keeper and, if asked for, a running turn. */
async function ready(...events: readonly NewEvent[]): Promise<SessionId> {
  const { id } = await create()
  await settled()
  record(parts, id, started, ...events)
  return id
}
const settled = () => new Promise<void>((resolve) => setImmediate(resolve))
const delivered = () => parts.keepers.commands.flatMap(({ command }) => (command.do === 'prompt' ? [command.text] : []))
/** A keeper that journals what it takes, as a real one does. */
const taking = () => {
  parts.keepers.handle = async (session, command) => {
    if (command.do === 'prompt')
      record(parts, session, { type: 'prompt', body: { id: command.id, text: command.text, images: 0 } })
    return null
  }
}

/** A keeper that drops whatever it is asked to. */
const dropping = () => {
  parts.keepers.handle = async (session, command) => {
    if (command.do === 'drop')
      for (const id of command.prompts)
        record(parts, session, {
          type: 'prompt.dropped',
          body: { id, why: command.why, actor: command.actor, door: command.door },
        })
    return null
  }
}

test('createSession() returns at once, and starts the keeper behind it', async () => {
  const standing = Promise.withResolvers<void>()
  parts.keepers.standing = () => standing.promise
  const session = await create({ prompt: { text: 'Mend the roof\nplease' } })
  expect(session).toMatchObject({ state: 'creating', name: 'Mend the roof', queued_prompts: 1, rung: 'bwrap', simulated: true })
  expect(delivered()).toEqual([])
  standing.resolve()
  await vi.waitFor(() => expect(delivered()).toEqual(['Mend the roof\nplease']))
})

test('createSession() makes one session of one key, also when two calls come at once', async () => {
  const [one, two] = await Promise.all([create({ idempotency_key: 'k' }), create({ idempotency_key: 'k' })])
  expect(two.id).toBe(one.id)
  expect((await create({ idempotency_key: 'k' })).id).toBe(one.id)
  expect(allSessions()).toHaveLength(1)
  await expect(create({ idempotency_key: 'k', name: 'Another' })).rejects.toMatchObject({ code: 'conflict' })
})

test('createSession() refuses a rung that this machine does not have, and says the remedy', async () => {
  parts.lacking = [{ what: 'bubblewrap is not installed', remedy: 'apt-get install bubblewrap' }]
  await expect(create()).rejects.toMatchObject({ code: 'cell_unavailable', hint: 'apt-get install bubblewrap' })
  await expect(create({ rung: 'none' })).rejects.toMatchObject({ code: 'cell_unavailable' })
})

test('createSession() refuses a toolchain that this machine does not have, before there is a session', async () => {
  const refusal = { code: 'cell_unavailable', message: 'There is no toolchain "nope"', hint: 'anchorhold doctor names them' }
  parts.toolchains = [{ name: 'nvm', folders: [] }]
  await expect(create({ toolchains: ['nvm', 'nope'] })).rejects.toMatchObject(refusal)
  expect(allSessions()).toEqual([])
  await create({ toolchains: ['nvm'] })
})

test('createSession() finds a toolchain that was installed since the rung was looked at', async () => {
  const { doctor } = parts
  parts = Object.assign(parts, {
    doctor: async (look: Parameters<typeof doctor>[0]) => ({
      ...(await doctor(look)),
      toolchains: look.rung === undefined ? [{ name: 'bun', folders: [] }] : [],
    }),
  })
  await create({ toolchains: ['bun'] })
})

test('createSession() refuses a net window while credentials.yaml cannot be used, before there is a session', async () => {
  const id = await ready()
  writeFileSync(join(parts.config.config, 'credentials.yaml'), 'credentials: [{ host: a.example }]')
  const refusal = {
    code: 'cell_unavailable',
    message: expect.stringMatching(/^Cannot use ".*credentials.yaml": /) as string,
    hint: expect.stringContaining('--network none') as string,
  }
  await expect(create()).rejects.toMatchObject(refusal)
  await expect(forkSession(parts, owner, id, {})).rejects.toMatchObject(refusal)
  expect(allSessions().map((one) => one.id)).toEqual([id])
  await create({ network: 'none' })
})

test('createSession() leaves no folder behind when the workspace is refused', async () => {
  await expect(create({ workspace: '/nonexistent' })).rejects.toMatchObject({ code: 'workspace_refused' })
  await expect(create({ workspace: parts.config.state })).rejects.toMatchObject({ code: 'workspace_refused' })
  await expect(create({ provider: 'nobody' })).rejects.toMatchObject({ code: 'provider_unavailable' })
  expect(allSessions()).toEqual([])
})

test('createSession() whose keeper cannot start has failed, and says why', async () => {
  parts.keepers.standing = () => Promise.reject(new Failure('gate_unavailable', 'No gate', { hint: 'See the log' }))
  const { id } = await create()
  await vi.waitFor(() => expect(parts.store.sessions.get(id)).toMatchObject({ state: 'failed', why: 'No gate (See the log)' }))
})

test('prompt() is stored once under one key, and the same key for another prompt is a conflict', async () => {
  const id = await ready()
  const one = prompt(parts, owner, id, { text: 'Hello', idempotency_key: 'k' })
  expect(prompt(parts, owner, id, { text: 'Hello', idempotency_key: 'k' })).toEqual(one)
  expect(() => prompt(parts, owner, id, { text: 'Other', idempotency_key: 'k' })).toThrow(Failure)
  expect(parts.all(id).filter(({ type }) => type === 'prompt.queued')).toHaveLength(1)
})

test.each(['stopped', 'archived'] as const)('prompt() is refused while the session is %s', async (to) => {
  const id = await ready()
  record(parts, id, { type: 'session.state', body: { from: 'ready', to, why: null } })
  expect(() => prompt(parts, owner, id, { text: 'Hello' })).toThrow(expect.objectContaining({ code: 'wrong_state' }))
  expect(parts.store.prompts.queued(id)).toEqual([])
})

test('deliver() gives a prompt to the next keeper when this one is leaving', async () => {
  const id = await ready()
  let tries = 0
  parts.keepers.handle = async (session, command) => {
    if (command.do !== 'prompt') return null
    if (++tries === 1) {
      parts.keepers.vanish(session)
      throw new Failure('wrong_state', 'leaving')
    }
    record(parts, session, { type: 'prompt', body: { id: command.id, text: command.text, images: 0 } })
    return { had: false }
  }
  prompt(parts, owner, id, { text: 'Hello' })
  await vi.waitFor(() => expect(tries).toBe(2))
  expect(parts.keepers.starts).toBe(2)
  expect(parts.store.prompts.queued(id)).toEqual([])
})

test('deliver() does not try again what has failed', async () => {
  const id = await ready()
  parts.keepers.handle = async (session, command) => {
    if (command.do !== 'prompt') return null
    parts.keepers.vanish(session)
    record(parts, session, { type: 'keeper.left', body: { why: 'exec format error', failed: true } })
    throw new Failure('wrong_state', 'leaving')
  }
  prompt(parts, owner, id, { text: 'Hello' })
  await vi.waitFor(() => expect(stateOf(id)).toBe('failed'))
  await settled()
  expect(parts.keepers.starts).toBe(1)
  expect(parts.store.prompts.queued(id)).toHaveLength(1)
})

test('deliver() starts nothing for a session that was ended, and ends what it started meanwhile', async () => {
  const id = await ready()
  parts.keepers.vanish(id)
  const standing = Promise.withResolvers<void>()
  parts.keepers.standing = () => standing.promise
  prompt(parts, owner, id, { text: 'Hello' })
  const stopping = stop(parts, owner, id)
  standing.resolve()
  await stopping
  await settled()
  expect(delivered()).toEqual([])
  expect(parts.keepers.has(id)).toBe(false)
  expect(stateOf(id)).toBe('stopped')
  await deliver(parts, id)
  expect(parts.keepers.starts).toBe(2)
})

test('deliverRest() hands on what a keeper left undone, unless a person is to decide', async () => {
  const id = await ready()
  prompt(parts, owner, id, { text: 'Hello' })
  await settled()
  parts.keepers.vanish(id)
  taking()
  deliverRest(parts, id)
  await vi.waitFor(() => expect(parts.store.prompts.queued(id)).toEqual([]))
  parts.keepers.vanish(id)
  record(parts, id, turn, { type: 'keeper.lost', body: { why: 'killed' } })
  const { starts } = parts.keepers
  deliverRest(parts, id)
  expect([stateOf(id), parts.keepers.starts]).toEqual(['interrupted', starts])
})

test('deliverSoon() says nothing of a session that was stopped meanwhile', async () => {
  const { id } = await create()
  await settled()
  parts.keepers.vanish(id)
  const standing = Promise.withResolvers<void>()
  parts.keepers.standing = () => standing.promise
  deliverSoon(parts, id)
  record(parts, id, { type: 'session.state', body: { from: 'creating', to: 'stopped', why: null } })
  standing.reject(new Error('too late'))
  await settled()
  expect(stateOf(id)).toBe('stopped')
})

test('deliverSoon() says in the log alone what cannot be written down', async () => {
  const { id } = await create()
  await settled()
  parts.keepers.vanish(id)
  parts.keepers.standing = () => Promise.reject(new Error('no cell'))
  const append = vi.spyOn(parts.store.events, 'append').mockImplementation(() => {
    throw new Failure('storage_unavailable', 'the disk is full')
  })
  deliverSoon(parts, id)
  await settled()
  expect(parts.logged).toEqual([`session ${id}: no cell`, `session ${id}: the disk is full`])
  append.mockRestore()
  expect(stateOf(id)).toBe('creating')
})

test('stop() ends the keeper and keeps what is queued, and start() delivers it', async () => {
  const id = await ready(turn)
  parts.keepers.handle = async () => ({ had: false })
  prompt(parts, owner, id, { text: 'Later', mode: 'queue' })
  await settled()
  expect((await stop(parts, owner, id)).state).toBe('stopped')
  expect(parts.keepers.commands.at(-1)?.command).toEqual({ do: 'leave', why: 'Stopped by owner' })
  expect(parts.store.prompts.queued(id)).toHaveLength(1)
  taking()
  expect(start(parts, owner, id).state).toBe('ready')
  await vi.waitFor(() => expect(parts.store.prompts.queued(id)).toEqual([]))
})

test('stop() ends nothing that was started again before its keeper stood', async () => {
  const id = await ready()
  parts.keepers.vanish(id)
  const standing = Promise.withResolvers<void>()
  parts.keepers.standing = () => standing.promise
  taking()
  prompt(parts, owner, id, { text: 'Hello' })
  const stopping = stop(parts, owner, id)
  start(parts, owner, id)
  standing.resolve()
  await stopping
  await vi.waitFor(() => expect(parts.store.prompts.queued(id)).toEqual([]))
  expect(parts.keepers.has(id)).toBe(true)
})

test('archive() ends the keeper, drops what is queued, and lets nothing but purge and fork follow', async () => {
  const id = await ready(turn)
  prompt(parts, owner, id, { text: 'Never' })
  const archived = await archive(parts, owner, id)
  expect(archived).toMatchObject({ state: 'archived', queued_prompts: 0 })
  expect(archived.archived_at).not.toBeNull()
  expect(parts.keepers.has(id)).toBe(false)
  await expect(archive(parts, owner, id)).rejects.toMatchObject({ code: 'wrong_state' })
  await expect(stop(parts, owner, id)).rejects.toMatchObject({ code: 'wrong_state' })
})

test('purge() wants an archived session and its id once more, and removes its folder', async () => {
  const id = await ready()
  await expect(purge(parts, owner, id, id)).rejects.toMatchObject({ code: 'wrong_state' })
  await archive(parts, owner, id)
  const another = (await create()).id
  await expect(purge(parts, owner, id, another)).rejects.toMatchObject({ code: 'bad_request' })
  await purge(parts, owner, id, id)
  expect([existsSync(parts.folders.session(id)), isUnsettled(parts.folders, id)]).toEqual([false, false])
  expect(stateOf(id)).toBeUndefined()
})

test('a daemon that dies while a session is made, forked or purged leaves a folder that is marked, or one that the log has', async () => {
  const { insert, purge: forget } = parts.store.sessions
  const seen: boolean[] = []
  const look = (id: SessionId) => void seen.push(isUnsettled(parts.folders, id), existsSync(parts.folders.session(id)))
  vi.spyOn(parts.store.sessions, 'insert').mockImplementation((row) => {
    look(row.id)
    insert(row)
  })
  vi.spyOn(parts.store.sessions, 'purge').mockImplementation((id) => {
    look(id)
    forget(id)
  })
  const id = await ready()
  const fork = await forkSession(parts, owner, id, {})
  expect([id, fork.id].map((one) => isUnsettled(parts.folders, one))).toEqual([false, false])
  await archive(parts, owner, id)
  await purge(parts, owner, id, id)
  expect(seen).toEqual(Array(6).fill(true))
})

test('what could not be made, forked or purged leaves no mark', async () => {
  const id = await ready()
  await archive(parts, owner, id)
  const fail = () => {
    throw new Error('no room')
  }
  vi.spyOn(parts.store.sessions, 'insert').mockImplementation(fail)
  vi.spyOn(parts.store.sessions, 'purge').mockImplementation(fail)
  for (const trial of [() => create(), () => forkSession(parts, owner, id, {}), () => purge(parts, owner, id, id)])
    await expect(trial()).rejects.toThrow('no room')
  expect(readdirSync(join(parts.folders.state, 'unsettled'))).toEqual([])
  expect(readdirSync(join(parts.folders.state, 'sessions'))).toEqual([id])
})

test('purge() waits for a keeper that is still leaving, and the session is gone before its folder is', async () => {
  const id = await ready()
  record(parts, id, { type: 'session.state', body: { from: 'ready', to: 'archived', why: null } })
  const left = Promise.withResolvers<void>()
  const { end } = parts.keepers
  parts.keepers.end = async (...how) => {
    await left.promise
    await end(...how)
  }
  const { purge: forget } = parts.store.sessions
  const seen: unknown[] = []
  vi.spyOn(parts.store.sessions, 'purge').mockImplementation((one) => {
    seen.push(parts.keepers.has(one), existsSync(parts.folders.session(one)))
    forget(one)
  })
  const purging = purge(parts, owner, id, id)
  await settled()
  expect([stateOf(id), existsSync(parts.folders.workspace(id))]).toEqual(['archived', true])
  left.resolve()
  await purging
  expect(seen).toEqual([false, true])
  expect(existsSync(parts.folders.session(id))).toBe(false)
})

test('purge() leaves its folder to a fork that was made meanwhile', async () => {
  const id = await ready()
  await archive(parts, owner, id)
  const { end } = parts.keepers
  parts.keepers.end = async () => {
    parts.keepers.end = end
    await forkSession(parts, owner, id, { share_workspace: true })
  }
  await expect(purge(parts, owner, id, id)).rejects.toMatchObject({ code: 'conflict' })
  expect([stateOf(id), existsSync(parts.folders.workspace(id))]).toEqual(['archived', true])
})

test('pause() stops windows and tools, and resume() lets them go on', async () => {
  const id = await ready(turn)
  expect((await pause(parts, owner, id)).state).toBe('paused')
  expect(parts.gate.commands.at(-1)).toEqual({ do: 'pause', session: id })
  expect(parts.keepers.commands.at(-1)?.command).toEqual({ do: 'pause' })
  await expect(pause(parts, owner, id)).rejects.toMatchObject({ code: 'wrong_state' })
  expect((await resume(parts, owner, id)).state).toBe('working')
  expect(parts.gate.commands.at(-1)).toEqual({ do: 'resume', session: id })
})

test('interrupt() drops what is queued only when it is told to', async () => {
  const id = await ready(turn)
  prompt(parts, owner, id, { text: 'Later', mode: 'queue' })
  await settled()
  expect((await interrupt(parts, owner, id, { dropQueued: false })).queued_prompts).toBe(1)
  expect(parts.keepers.commands.at(-1)?.command).toEqual({ do: 'interrupt' })
  expect((await interrupt(parts, owner, id, { dropQueued: true })).queued_prompts).toBe(1)
  // The keeper decides, and journals what it drops.
  dropping()
  expect((await interrupt(parts, owner, id, { dropQueued: true })).queued_prompts).toBe(0)
  expect(parts.all(id).at(-1)).toMatchObject({ type: 'prompt.dropped', body: { why: 'Dropped by owner', door: 'test' } })
  expect(parts.keepers.commands.at(-1)?.command).toEqual({ do: 'interrupt' })
})

test('dropPrompt() takes back one that no keeper has, and asks the keeper about any other', async () => {
  const id = await ready(turn)
  const one = prompt(parts, owner, id, { text: 'One', mode: 'queue' })
  const two = prompt(parts, owner, id, { text: 'Two', mode: 'queue' })
  await settled()
  await expect(dropPrompt(parts, owner, id, one.id)).rejects.toMatchObject({ code: 'conflict' })
  parts.keepers.vanish(id)
  expect((await dropPrompt(parts, owner, id, one.id)).queued_prompts).toBe(1)
  expect(parts.store.prompts.queued(id).map((row) => row.id)).toEqual([two.id])
  await expect(dropPrompt(parts, owner, id, newPromptId(randomBytes))).rejects.toMatchObject({ code: 'not_found' })
  const another = await ready()
  await expect(dropPrompt(parts, owner, another, two.id)).rejects.toMatchObject({ code: 'not_found' })
})

test('dropPrompt() waits for a keeper that is just being started, and drops what died with it', async () => {
  const id = await ready()
  parts.keepers.vanish(id)
  const standing = Promise.withResolvers<void>()
  parts.keepers.standing = () => standing.promise
  const one = prompt(parts, owner, id, { text: 'One' })
  const dropped = dropPrompt(parts, owner, id, one.id)
  await settled()
  expect(parts.store.prompts.get(one.id)?.state).toBe('queued')
  parts.keepers.handle = async (session, command) => {
    if (command.do !== 'drop') return null
    parts.keepers.vanish(session)
    throw new Failure('keeper_unavailable', 'It died')
  }
  standing.resolve()
  expect((await dropped).queued_prompts).toBe(0)
})

test('dropPrompt() drops nothing where it cannot be read what a dead keeper gave to its agent', async () => {
  const id = await ready()
  const one = prompt(parts, owner, id, { text: 'One' })
  await settled()
  parts.keepers.vanish(id)
  parts.keepers.stands = () => Promise.reject(new Failure('keeper_unavailable', 'Cannot read what it left'))
  await expect(dropPrompt(parts, owner, id, one.id)).rejects.toMatchObject({ message: 'Cannot read what it left' })
  expect(parts.store.prompts.get(one.id)?.state).toBe('queued')
  // What only a keeper needs to hear is no reason to refuse it.
  expect((await change(parts, owner, id, { model: 'rehearsal-2' })).model).toBe('rehearsal-2')
})

test('deliver() hands over all that is queued to a keeper that does not answer in time', async () => {
  const id = await ready()
  for (const text of ['One', 'Two']) prompt(parts, owner, id, { text })
  parts.keepers.handle = () => Promise.reject(new Failure('keeper_unavailable', 'No answer'))
  await deliver(parts, id)
  expect(delivered()).toEqual(expect.arrayContaining(['One', 'Two']))
  expect(parts.keepers.starts).toBe(1)
})

test('change() sets the model where the keeper is just leaving: the next one starts with it', async () => {
  const id = await ready()
  await parts.keepers.ensure(id)
  parts.keepers.handle = () => Promise.reject(new Failure('wrong_state', 'leaving'))
  expect(await change(parts, owner, id, { name: 'Roof', model: 'other' })).toMatchObject({ name: 'Roof', model: 'other' })
})

test('inCell() waits for a keeper that is leaving, and asks the next one', async () => {
  const id = await ready()
  let tries = 0
  parts.keepers.handle = async (session) => {
    if (++tries > 1) return { entries: [], more: false }
    // Its link stands until it has gone.
    setTimeout(() => parts.keepers.vanish(session), 20)
    throw new Failure('wrong_state', 'leaving')
  }
  await inCell(parts, id, { do: 'workspace', asked: { ask: 'list', path: '' } })
  expect([tries, parts.keepers.starts]).toEqual([2, 2])
})

test('deliver() does not hand over what was taken back while it handed over another', async () => {
  const id = await ready()
  const [first, second] = [{ text: 'One' }, { text: 'Two' }].map((input) => prompt(parts, owner, id, input))
  parts.keepers.handle = async (session, command) => {
    if (command.do === 'prompt' && command.id === first!.id)
      record(parts, session, { type: 'prompt.dropped', body: { id: second!.id, why: 'Not wanted' } })
    return null
  }
  await deliver(parts, id)
  expect(delivered()).not.toContain('Two')
})

test('pause() and interrupt() reach a keeper that is just being started', async () => {
  const id = await ready()
  parts.keepers.vanish(id)
  const standing = Promise.withResolvers<void>()
  parts.keepers.standing = () => standing.promise
  prompt(parts, owner, id, { text: 'One' })
  const interrupting = interrupt(parts, owner, id, { dropQueued: false })
  const pausing = pause(parts, owner, id)
  await settled()
  // The log first: the windows are opened by it.
  expect(stateOf(id)).toBe('paused')
  expect(parts.gate.commands.at(-1)).toEqual({ do: 'pause', session: id })
  const { length } = parts.keepers.commands
  standing.resolve()
  await Promise.all([interrupting, pausing])
  const told = parts.keepers.commands.slice(length).map(({ command }) => command.do)
  expect(told.toSorted()).toEqual(['interrupt', 'pause', 'prompt'])
})

test('a prompt to a paused session whose keeper cannot stay waits, and is tried again when it goes on', async () => {
  const id = await ready()
  await pause(parts, owner, id)
  parts.keepers.handle = async (session, command) => {
    if (command.do !== 'prompt') return null
    record(parts, session, { type: 'keeper.left', body: { why: 'no bwrap', failed: true } })
    parts.keepers.vanish(session)
    throw new Failure('wrong_state', 'leaving')
  }
  prompt(parts, owner, id, { text: 'One' })
  await settled()
  expect([stateOf(id), parts.store.prompts.queued(id).length]).toEqual(['paused', 1])
  const tried = parts.keepers.starts
  await settled()
  expect(parts.keepers.starts).toBe(tried)
  await resume(parts, owner, id)
  await settled()
  expect(stateOf(id)).toBe('failed')
  expect(parts.keepers.starts).toBe(tried + 1)
})

test('resume() shows what was cut short, and goes on where something is queued', async () => {
  const id = await ready(turn)
  const queued = prompt(parts, owner, id, { text: 'One', mode: 'queue' })
  await settled()
  await pause(parts, owner, id)
  parts.keepers.vanish(id)
  record(parts, id, { type: 'keeper.lost', body: { why: 'killed' } })
  expect(stateOf(id)).toBe('paused')
  expect((await resume(parts, owner, id)).state).toBe('ready')
  const states = parts.all(id).flatMap((event) => (event.type === 'session.state' ? [event.body] : []))
  expect(states.slice(-2)).toMatchObject([
    { from: 'paused', to: 'interrupted', why: 'A crash cut it short while it was paused' },
    { from: 'interrupted', to: 'ready' },
  ])
  await settled()
  expect(parts.keepers.commands.at(-1)?.command).toMatchObject({ do: 'prompt', id: queued.id })
})

test('resume() says why a session cannot go on of which nobody knows how far it came', async () => {
  const id = await ready(turn)
  await pause(parts, owner, id)
  parts.keepers.vanish(id)
  const { stands } = parts.keepers
  parts.keepers.stands = () => Promise.reject(new Failure('keeper_unavailable', 'Cannot read what it left'))
  expect(await resume(parts, owner, id)).toMatchObject({ state: 'failed', why: expect.stringContaining('Cannot read') as string })
  parts.keepers.stands = stands
})

test('change() reaches a gate and a keeper that are just being started', async () => {
  const id = await ready()
  parts.keepers.vanish(id)
  const standing = Promise.withResolvers<void>()
  parts.keepers.standing = () => standing.promise
  prompt(parts, owner, id, { text: 'One' })
  const changing = change(parts, owner, id, { model: 'other', budget_micros: 5 })
  await settled()
  expect(parts.gate.commands.at(-1)).toEqual({ do: 'budget', session: id, budget_nanos: 5000 })
  standing.resolve()
  await changing
  expect(parts.keepers.commands.map(({ command }) => command)).toContainEqual({ do: 'model', model: 'other' })
})

test('change() does not mind that the gate does not serve the session yet', async () => {
  const id = await ready()
  parts.gate.handle = (command) => {
    if (command.do === 'budget') throw new Failure('not_found', 'no windows')
    return null
  }
  expect(await change(parts, owner, id, { budget_micros: 5 })).toMatchObject({ budget_micros: 5 })
})

test('archive() drops what is queued once its keeper is gone', async () => {
  const id = await ready(turn)
  const one = prompt(parts, owner, id, { text: 'One', mode: 'queue' })
  const two = prompt(parts, owner, id, { text: 'Two', mode: 'queue' })
  await settled()
  const end = parts.keepers.end
  Object.assign(parts.keepers, {
    async end(...how: Parameters<typeof end>) {
      record(parts, id, { type: 'prompt', body: { id: one.id, text: 'One', images: 0 } })
      await end(...how)
    },
  })
  await archive(parts, owner, id)
  const dropped = parts.all(id).flatMap((event) => (event.type === 'prompt.dropped' ? [event.body.id] : []))
  expect(dropped).toEqual([two.id])
})

test('change() tells keeper and gate what they must know', async () => {
  const id = await ready()
  const changed = await change(parts, owner, id, { name: 'Roof', model: 'other', budget_micros: 5 })
  expect(changed).toMatchObject({ name: 'Roof', model: 'other', budget_micros: 5 })
  expect(parts.keepers.commands.at(-1)?.command).toEqual({ do: 'model', model: 'other' })
  expect(parts.gate.commands.at(-1)).toEqual({ do: 'budget', session: id, budget_nanos: 5000 })
})

test('panic() kills every keeper, also one that is just being started, and nothing comes back', async () => {
  const tended = await ready(turn)
  const standing = Promise.withResolvers<void>()
  parts.keepers.standing = () => standing.promise
  const { id: newborn } = await create({ prompt: { text: 'Hello' } })
  expect(await panic(parts, owner)).toEqual({ sessions: 2, launched: 0, left: [] })
  expect(parts.keepers.killed.toSorted()).toEqual([tended, newborn].toSorted())
  standing.resolve()
  await settled()
  await settled()
  expect([stateOf(tended), stateOf(newborn)]).toEqual(['stopped', 'stopped'])
  expect(delivered()).toEqual([])
  expect(parts.keepers.sessions).toEqual([])
  expect(parts.gate.commands.at(-1)).toEqual({ do: 'panic' })
})

test('panic() stops a session that is just being made, and none that is asked for afterwards', async () => {
  const making = create({ prompt: { text: 'Hello' } })
  await panic(parts, owner)
  await expect(making).rejects.toMatchObject({ code: 'panicked' })
  expect([parts.keepers.starts, readdirSync(join(parts.config.state, 'sessions'))]).toEqual([0, []])
  await expect(create()).rejects.toMatchObject({ code: 'panicked' })
  expect(liftPanic(parts, owner)).toEqual({ lifted: true })
  expect((await create()).state).toBe('creating')
})

test('after panic() nothing runs by any verb until it is lifted, also not in a session that was at rest', async () => {
  const [id, other] = [await ready(), await ready()]
  for (const one of [id, other]) {
    record(parts, one, { type: 'keeper.left', body: { why: 'idle', failed: false } })
    parts.keepers.vanish(one)
  }
  const [at, why] = [
    parts.keepers.starts,
    { code: 'panicked', hint: expect.stringContaining('anchorhold panic --lift') as string },
  ]
  await panic(parts, owner)
  expect(stateOf(id)).toBe('ready')
  expect(() => prompt(parts, owner, id, { text: 'Go on' })).toThrow(expect.objectContaining(why))
  expect(() => warm(parts, owner, id)).toThrow(expect.objectContaining(why))
  await stop(parts, owner, id)
  expect(() => start(parts, owner, id)).toThrow(expect.objectContaining(why))
  await expect(keeperStart(parts, {} as Runtime, Promise.resolve(null), other)).rejects.toMatchObject(why)
  expect([parts.keepers.starts, parts.store.prompts.queued(id)]).toEqual([at, []])
  expect(panicOver(parts, firstOwner)).toMatchObject({ user: null, actor: 'owner' })

  expect([liftPanic(parts, owner), liftPanic(parts, owner)]).toEqual([{ lifted: true }, { lifted: false }])
  expect(panicOver(parts, firstOwner)).toBeNull()
  expect(start(parts, owner, id).state).toBe('ready')
  prompt(parts, owner, id, { text: 'Go on' })
  await settled()
  expect(parts.keepers.starts).toBe(at + 1)
})

test('panic() says what it could not stop', async () => {
  const id = await ready(turn)
  parts.keepers.gone = () => new Promise(() => {})
  vi.useFakeTimers({ toFake: ['setTimeout'] })
  const said = panic(parts, owner)
  await vi.advanceTimersByTimeAsync(5000)
  vi.useRealTimers()
  expect((await said).left).toEqual([`Session "${id}" goes on: its keeper or its cell has not ended`])
})

test('panic() and stop() end agents also when nothing can be written down, and what was not written is said', async () => {
  const [first, second] = [await ready(turn), await ready(turn)]
  const full = new Failure('storage_unavailable', 'Cannot write: the disk is full')
  const { atomically } = parts.store
  const append = vi.spyOn(parts.store.events, 'append').mockImplementation(() => {
    throw full
  })
  await expect(stop(parts, owner, first)).rejects.toThrow('the disk is full')
  expect(parts.keepers.has(first)).toBe(false)
  parts.store.atomically = () => {
    throw full
  }
  const startNoMore = vi.spyOn(parts.keepers, 'startNoMore')
  await expect(panic(parts, owner)).rejects.toThrow('Every agent was stopped, but that could not be written down')
  expect(parts.keepers.killed).toContain(second)
  expect(parts.gate.commands.at(-1)).toEqual({ do: 'panic' })
  expect(startNoMore).toHaveBeenCalled()
  append.mockRestore()
  parts.store.atomically = atomically
  await vi.waitFor(() => expect(stateOf(second)).toBe('stopped'), 3000)
})

test('archive() keeps in mind what it could not take back, purge() refuses over it, and finishArchives() tries again', async () => {
  const lists = fakeAccessLists(join(parts.config.state, 'bin'))
  vi.stubEnv('PATH', `${lists.path}:${process.env['PATH']}`)
  const id = await ready()
  const workspace = join(parts.config.state, 'project')
  mkdirSync(workspace)
  const { get } = parts.store.sessions
  parts.store.sessions.get = (one) => {
    const session = get(one)
    return session === null ? null : { ...session, runAs: { uid: 7, gid: 7 } }
  }
  parts.store.sessions.setGrants(id, [workspace])
  lists.refuse('u:7')
  expect((await archive(parts, owner, id)).state).toBe('archived')
  expect(parts.logged.join()).toContain('Cannot take back the access of the user 7')
  await expect(purge(parts, owner, id, id)).rejects.toMatchObject({ code: 'conflict' })
  expect(parts.store.sessions.get(id)?.grants).toEqual([workspace])
  lists.refuse(null)
  await finishArchives(parts)
  expect(parts.store.sessions.get(id)?.grants).toEqual([])
  expect(lists.done()).toEqual([`-x u:7,d:u:7 ${workspace}`])
  await purge(parts, owner, id, id)
})

test('finishArchives() drops what a daemon that was ended in the middle of archiving had left queued', async () => {
  parts.keepers.standing = () => new Promise(() => {})
  const { id } = await create({ prompt: { text: 'Hello' } })
  record(parts, id, { type: 'session.state', body: { from: 'creating', to: 'archived', why: null } })
  expect(parts.store.prompts.queued(id)).toHaveLength(1)
  parts.keepers.end = async () => {}
  parts.keepers.stands = async () => false
  await finishArchives(parts)
  expect(parts.store.prompts.queued(id)).toEqual([])
})

test.each([
  ['A session', 'A session (fork)'],
  ['A session (fork)', 'A session (fork 2)'],
  ['A session (fork 9)', 'A session (fork 10)'],
  [' (fork)', ' (fork) (fork)'],
])('a fork of "%s" is called "%s"', (origin, name) => {
  expect(forkName(origin)).toBe(name)
})

test('forkSession() copies workspace and home, follows no link, and shares the conversation', async () => {
  const id = await ready(turn)
  writeFileSync(join(parts.folders.workspace(id), 'hello.txt'), 'hi')
  mkdirSync(join(parts.folders.home(id), '.claude'))
  // An agent lays links in its home and hopes for somebody with more rights to follow them.
  for (const [name, target] of Object.entries({ file: '/etc/shadow', folder: '/root' }))
    for (const where of [parts.folders.workspace(id), parts.folders.home(id)]) symlinkSync(target, join(where, name))
  const fork = await forkSession(parts, owner, id, {})
  for (const where of [parts.folders.workspace(fork.id), parts.folders.home(fork.id)])
    expect([readlinkSync(join(where, 'file')), readlinkSync(join(where, 'folder'))]).toEqual(['/etc/shadow', '/root'])
  expect(fork).toMatchObject({ state: 'ready', forked_from: id, name: 'New session (fork)' })
  expect(existsSync(join(parts.folders.workspace(fork.id), 'hello.txt'))).toBe(true)
  expect(existsSync(join(parts.folders.home(fork.id), '.claude'))).toBe(true)
  const [from, to] = [id, fork.id].map((one) => parts.store.sessions.get(one))
  expect(to).toMatchObject({ conversation: from?.conversation, conversing: true })
})

const uuid = (n: number) => `00000000-0000-4000-8000-00000000000${n}`
const text = (n: number, message?: string): NewEvent => ({
  type: 'text',
  body: { block: `b${n}`, text: `${n}`, parent: null, ...(message === undefined ? {} : { message }) },
})
const rowOf = (id: SessionId) => parts.store.sessions.get(id)!

test('forkSession() at an event knows the messages up to it, and none after', async () => {
  const id = await ready()
  const first = newPromptId(randomBytes)
  record(
    parts,
    id,
    { type: 'prompt', body: { id: first, text: '', images: 0 } },
    turn,
    text(1, uuid(1)),
    text(2),
    text(3, uuid(3)),
  )
  const seqOf = (block: string) => parts.all(id).find((event) => event.type === 'text' && event.body.block === block)!.seq
  const forkAt = async (at: number) => rowOf((await forkSession(parts, owner, id, { at })).id)
  const second = await forkAt(seqOf('b2'))
  expect(second).toMatchObject({ conversation: rowOf(id).conversation, forgetAfter: [uuid(1), uuidOfPrompt(first)] })
  expect(parts.all(second.id)[0]).toMatchObject({ type: 'session.created', body: { forked_from: id, at: seqOf('b2') } })
  expect((await forkAt(seqOf('b3'))).forgetAfter[0]).toBe(uuid(3))
  const empty = await forkAt(1)
  expect(empty).toMatchObject({ conversing: false, forgetAfter: [] })
  expect(empty.conversation).not.toBe(rowOf(id).conversation)
  await expect(forkAt(rowOf(id).last_seq + 1)).rejects.toMatchObject({ code: 'bad_request' })

  // A fork of a fork: what it was given lies before its own first message.
  const [again, atBirth] = [await forkSession(parts, owner, second.id, {}), await forkSession(parts, owner, second.id, { at: 1 })]
  for (const one of [again, atBirth]) expect(rowOf(one.id).forgetAfter).toEqual(second.forgetAfter)
  await archive(parts, owner, id)
  await purge(parts, owner, id, id)
  await expect(forkSession(parts, owner, second.id, { at: 1 })).rejects.toMatchObject({ code: 'conflict' })
})

test('forkSession() may share the folder, which a purge then leaves to the fork', async () => {
  const id = await ready()
  const fork = await forkSession(parts, owner, id, { share_workspace: true })
  expect(fork.workspace).toBe(rowOf(id).workspace)
  expect(existsSync(parts.folders.workspace(fork.id))).toBe(false)
  for (const one of [id, fork.id]) await archive(parts, owner, one)
  await expect(purge(parts, owner, id, id)).rejects.toMatchObject({
    code: 'conflict',
    message: expect.stringContaining(`"${fork.id}" works in its folder`) as string,
  })
  expect(existsSync(fork.workspace)).toBe(true)
  await purge(parts, owner, fork.id, fork.id)
  expect(existsSync(fork.workspace)).toBe(true)
  await purge(parts, owner, id, id)
  expect(existsSync(fork.workspace)).toBe(false)
})

test('forkSession() refuses to share a folder that cannot be', async () => {
  const id = await ready()
  rmSync(parts.folders.workspace(id), { recursive: true })
  await expect(forkSession(parts, owner, id, { share_workspace: true })).rejects.toMatchObject({ code: 'workspace_refused' })
})

test('warm() starts a keeper where there is none, once, and hands nothing on', async () => {
  const id = await ready(turn)
  record(parts, id, { type: 'keeper.lost', body: { why: 'killed' } })
  parts.keepers.vanish(id)
  parts.store.prompts.insert(
    { id: newPromptId(randomBytes), session: id, text: 'Later', images: [], mode: 'queue', cause: 'prompt', queuedAt: 1 },
    null,
  )
  const { starts } = parts.keepers
  for (let n = 0; n < 3; n++) expect(warm(parts, owner, id).state).toBe('interrupted')
  await settled()
  warm(parts, owner, id)
  expect(parts.keepers.starts).toBe(starts + 1)
  expect(delivered()).toEqual([])
})

test('warm() is refused once the session was stopped, and what it started is ended with it', async () => {
  const id = await ready()
  parts.keepers.vanish(id)
  const standing = Promise.withResolvers<void>()
  parts.keepers.standing = () => standing.promise
  warm(parts, owner, id)
  await panic(parts, owner)
  standing.resolve()
  await settled()
  expect(parts.keepers.has(id)).toBe(false)
  expect(() => warm(parts, owner, id)).toThrow(expect.objectContaining({ code: 'wrong_state' }))
})

test('warm() that cannot start a keeper leaves the session as it is', async () => {
  const id = await ready()
  parts.keepers.vanish(id)
  parts.keepers.standing = () => Promise.reject(new Failure('gate_unavailable', 'No gate'))
  warm(parts, owner, id)
  await settled()
  expect([stateOf(id), parts.logged.at(-1)]).toEqual(['ready', `session ${id}: No gate`])
})

test('sessions that were active in the same instant are on one page, so that no page misses any', async () => {
  const made: SessionId[] = []
  for (const [at, count] of [
    [1000, 2],
    [2000, 5],
    [3000, 2],
  ] as const) {
    parts.now = () => at
    for (let i = 0; i < count; i++) made.push((await create()).id)
  }
  for (const limit of [1, 2, 3, 4, 500]) {
    const seen: SessionId[] = []
    let before: number | null = null
    for (let more = true; more;) {
      const page: ReturnType<typeof listSessions> = listSessions(parts, owner, { archived: false, state: null, before, limit })
      seen.push(...page.sessions.map(({ id }) => id))
      before = page.sessions.at(-1)?.active_at ?? 0
      more = page.more
    }
    expect(seen.toSorted()).toEqual(made.toSorted())
  }
})

test('panic() stops what nobody tends and what would go on by itself', async () => {
  const [parked, queued, rests] = [await ready(turn), await ready(), await ready()]
  const opened = { id: newRequestId(randomBytes), call: null, action: { kind: 'plan' as const, plan: 'Do it' } }
  record(parts, parked, { type: 'request.opened', body: opened })
  const left: NewEvent = { type: 'keeper.left', body: { why: 'parked', failed: false } }
  record(parts, parked, { type: 'turn.ended', body: { reason: 'waiting', why: null, duration_ms: 1 } }, left)
  for (const id of [queued, rests]) record(parts, id, left)
  for (const id of [parked, queued, rests]) parts.keepers.vanish(id)
  parts.keepers.standing = async () => {
    throw new Failure('keeper_unavailable', 'Not now')
  }
  parts.store.prompts.insert(
    { id: newPromptId(randomBytes), session: queued, text: 'go', images: [], mode: 'queue', cause: 'prompt', queuedAt: 1 },
    null,
  )
  await panic(parts, owner)
  expect([parked, queued, rests].map(stateOf)).toEqual(['stopped', 'stopped', 'ready'])
})
