import type { Event } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import { existsSync, lstatSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { ended, sessionsOf } from './both-doors.ts'
import { ownerOf } from './host.ts'
import { type Installation, installation, isRoot, outputsOf, textOf } from './installation.ts'

let it: Installation
beforeAll(async () => {
  it = await installation()
})
afterAll(async () => {
  await it[Symbol.asyncDispose]()
})
const { session, archiveAll } = sessionsOf(() => it)
afterEach(archiveAll)

const recall = async (id: SessionId) => textOf(await it.turn(id, 'what did I ask you'))
const fork = async (...args: readonly string[]) => {
  const { code, out, err } = await it.cli(['fork', ...args])
  if (code !== 0) throw new Error(err)
  return out.trim() as SessionId
}
const seqOf = (log: readonly Event[], fits: (event: Event) => boolean) => log.find(fits)!.seq

test('a fork at an event knows what was said up to it, and has the files of now', async () => {
  const { session: one } = await it.run('say the herring flies')
  await it.turn(one.id, 'run `echo cod > cod.txt; echo swims`, then say the cod swims')
  await it.turn(one.id, 'run `echo crab > crab.txt`, then say the crab walks')
  const log = await it.log(one.id)
  // Whatever the agent said or did can be forked at: each carries the agent's own id of its message.
  for (const event of log)
    if (['text', 'tool.started', 'tool.finished'].includes(event.type)) expect(event.body).toHaveProperty('message')

  const first = await fork(one.id, '--at', String(seqOf(log, ended)))
  const inTool = await fork(one.id, '--at', String(seqOf(log, ({ type }) => type === 'tool.finished')))
  const started = await fork(one.id, '--at', String(seqOf(log, ({ type }) => type === 'tool.started')))
  const empty = await fork(one.id, '--at', '1')
  expect((await it.log(first))[0]).toMatchObject({
    type: 'session.created',
    body: { forked_from: one.id, at: seqOf(log, ended) },
  })

  const said = await recall(first)
  expect(said).toContain('the herring flies')
  expect(said).not.toMatch(/cod|crab/)
  for (const id of [inTool, started]) {
    const known = await recall(id)
    for (const words of ['the herring flies', 'echo cod']) expect(known).toContain(words)
    expect(known).not.toContain('crab')
  }
  expect(await recall(empty)).not.toMatch(/herring|cod|crab/)
  // It goes on from there by itself, also in the next keeper, and the other one is as it was.
  await it.turn(first, 'say the eel sings')
  await it.api.stop({ params: { id: first } })
  await it.api.start({ params: { id: first } })
  const later = await it.turn(first, 'what did I ask you, then run `ls`')
  for (const words of ['the herring flies', 'the eel sings']) expect(textOf(later)).toContain(words)
  expect(textOf(later)).not.toMatch(/echo (cod|crab)/)
  expect(outputsOf(later)).toContain('crab.txt')
  const whole = await recall(one.id)
  for (const words of ['the herring flies', 'echo cod', 'echo crab']) expect(whole).toContain(words)
  expect(whole).not.toContain('eel')
})

test('an event that is not there cannot be forked at', async () => {
  const { session: one } = await it.run('say hello')
  await expect(fork(one.id, '--at', '9999')).rejects.toThrow('its last one is')
  await expect(fork(one.id, '--at', 'yesterday')).rejects.toThrow('not the number of an event')
})

test('a fork that shares the workspace works in the same folder, and a purge leaves it there as long as it does', async () => {
  const { session: one } = await it.run('create from-one.txt saying one')
  const shared = await fork(one.id, '--share-workspace')
  expect((await session(shared)).workspace).toBe(one.workspace)
  const seen = await it.turn(shared, 'run `cat from-one.txt; echo two > from-two.txt`')
  expect(outputsOf(seen)).toContain('one')
  expect(outputsOf(await it.turn(one.id, 'run `cat from-two.txt; echo three >> from-two.txt`'))).toContain('two')
  expect(outputsOf(await it.turn(shared, 'run `cat from-two.txt`'))).toContain('three')
  if (isRoot) expect(ownerOf(join(one.workspace, 'from-two.txt'))).toBe(ownerOf(join(one.workspace, 'from-one.txt')))
  for (const id of [one.id, shared]) await it.api.archive({ params: { id } })
  expect(await it.cli(['purge', one.id, '--confirm', one.id])).toMatchObject({
    code: 1,
    err: expect.stringContaining(`"${shared}" works in its folder`) as string,
  })
  expect(existsSync(join(one.workspace, 'from-two.txt'))).toBe(true)
  for (const id of [shared, one.id]) expect(await it.cli(['purge', id, '--confirm', id])).toMatchObject({ code: 0 })
  expect(existsSync(one.workspace)).toBe(false)
})

test('a link that an agent lays in its home is copied as a link by a fork, and leads nowhere', async () => {
  const { session: one } = await it.run(
    'run `ln -s /etc/shadow ${HOME}/mine; ln -s /etc/shadow here; ln -s /root ${HOME}/.claude/folder`',
  )
  const id = await fork(one.id)
  const { workspace } = await session(id)
  const home = join(it.state, 'sessions', id, 'home')
  for (const link of [join(home, 'mine'), join(workspace, 'here')]) {
    expect(lstatSync(link).isSymbolicLink()).toBe(true)
    expect(readlinkSync(link)).toBe('/etc/shadow')
  }
  expect(readlinkSync(join(home, '.claude/folder'))).toBe('/root')
  expect(outputsOf(await it.turn(id, 'run `cat ${HOME}/mine here || echo refused`'))).toContain('refused')
  if (isRoot) expect(readFileSync('/etc/shadow', 'utf8')).not.toBe('')
})
