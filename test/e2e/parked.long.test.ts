import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Askable, ask, askingInstallation, holdRequests, kinds } from './asking.ts'
import { sessionsOf } from './both-doors.ts'
import { keepersOf } from './host.ts'
import { type Installation, outputsOf, textOf, until } from './installation.ts'

let asked: Askable
let it: Installation
beforeAll(async () => {
  asked = await askingInstallation()
  it = asked.it
  mkdirSync(join(it.state, 'config/policies'))
  writeFileSync(join(it.state, 'config/policies/soon.yaml'), 'park_after_seconds: 2\nrequest_hours: 24\n')
  await it.api.reloadPolicy()
})
afterAll(async () => {
  await asked[Symbol.asyncDispose]()
})
const { session, request } = sessionsOf(() => it)
const allow = (id: string) => it.api.answerRequest({ params: { id }, body: { decision: 'allow' } })

test.each(kinds)(
  'a %s that nobody answers is parked: its cell leaves, and the answer brings the session back',
  async (kind) => {
    const asking = await ask(asked, kind, { policy: 'soon' })
    await it.event(asking.session, 0, (event) => event.type === 'turn.ended' && event.body.reason === 'waiting')
    await until(() => keepersOf(it.state, asking.session).length === 0)
    expect(await session(asking.session)).toMatchObject({ state: 'waiting', open_requests: 1 })
    expect(await asking.times()).toBe(0)
    await allow(asking.request)
    await until(async () => (await asking.times()) > 0 && (await session(asking.session)).state === 'ready')
    const log = await it.log(asking.session)
    expect(await asking.times()).toBe(1)
    holdRequests(log)
    expect(log.filter(({ type }) => type === 'request.opened')).toHaveLength(1)
    expect(log.flatMap((event) => (event.type === 'turn.started' ? [event.body.cause] : []))).toEqual(['prompt', 'resume'])
    expect(log.flatMap((event) => (event.type === 'grant.used' ? [event.body.request] : []))).toEqual([asking.request])
  },
  120_000,
)

test('not now parks at once; a denial is then told with its reason, and nothing happens', async () => {
  const asking = await ask(asked, 'tool')
  const { code, out } = await it.cli(['later', asking.request])
  expect([code, out]).toEqual([0, `${asking.request}: waits for you\n`])
  await until(() => keepersOf(it.state, asking.session).length === 0)
  expect((await it.cli(['requests'])).out).toContain('open (not now)')
  await it.cli(['deny', asking.request, '--reason', 'the moon is wrong'])
  const told = await it.event(
    asking.session,
    0,
    (event) => event.type === 'prompt.queued' && event.body.text.includes('the moon is wrong'),
  )
  await it.event(asking.session, told.seq, (event) => event.type === 'turn.ended' && event.body.reason === 'done')
  expect(await asking.times()).toBe(0)
}, 120_000)

test('a question and a plan outlive their cell too', async () => {
  const { id } = await it.api.createSession({
    body: { policy: 'soon', prompt: { text: 'ask me whether to use tabs or spaces' } },
  })
  const question = await request(id, 0)
  await it.event(id, 0, (event) => event.type === 'turn.ended' && event.body.reason === 'waiting')
  await until(() => keepersOf(it.state, id).length === 0)
  expect(await it.cli(['allow', question.body.id, '--answer', '2'])).toMatchObject({ code: 0, err: '' })
  const queued = await it.event(id, question.seq, ({ type }) => type === 'prompt.queued')
  expect(queued.body).toMatchObject({ text: expect.stringMatching(/answered your question:[\s\S]*Answer: spaces/) as string })
  await it.event(id, queued.seq, (event) => event.type === 'turn.ended' && event.body.reason === 'done')
}, 120_000)

test('autonomy is changed in mid-session: what waits goes on, and a notice says so', async () => {
  const asking = await ask(asked, 'tool')
  expect(await it.cli(['autonomy', asking.session, 'full'])).toMatchObject({ code: 0 })
  await until(async () => (await asking.times()) === 1)
  const log = await it.log(asking.session)
  expect(log.flatMap((event) => (event.type === 'notice' ? [event.body.message] : [])).join()).toContain('autonomy to full')
  expect((await it.api.getRequest({ params: { id: asking.request } })).answer).toMatchObject({ decision: 'withdrawn' })
  await it.cli(['autonomy', asking.session, 'read_only'])
  const { events } = { events: await it.turn(asking.session, 'run `echo never`') }
  expect(outputsOf(events)).toContain('autonomy read_only: no tool runs')
  expect(textOf(events)).not.toBe('')
}, 120_000)

test('allow --session lets the like through for this session; allow --rule does so for all, and prints the rule', async () => {
  const { id } = await it.api.createSession({ body: { autonomy: 'supervised', prompt: { text: 'run `git status`' } } })
  const first = await request(id, 0)
  expect((await it.cli(['allow', first.body.id, '--session'])).out).toContain('for this session')
  await it.event(id, first.seq, ({ type }) => type === 'turn.ended')
  const again = await it.turn(id, 'run `git status --short`')
  expect(again.filter(({ type }) => type === 'request.opened')).toEqual([])
  const other = await it.api.createSession({ body: { autonomy: 'supervised', prompt: { text: 'run `git status`' } } })
  const second = await request(other.id, 0)
  expect(await it.cli(['allow', second.body.id, '--rule'])).toMatchObject({
    code: 2,
    out: expect.stringMatching(/The rule: .*git status.*\nOf \d+ actions since 20\S+ it would have allowed [1-9]/) as string,
    err: expect.stringContaining('nobody is here to confirm it') as string,
  })
  const { out } = await it.cli(['allow', second.body.id, '--rule', '--yes'])
  expect(out).toMatch(/by this rule:\n.*git status/)
  await it.event(other.id, second.seq, ({ type }) => type === 'turn.ended')
  // The rule has let it go on: nobody is sent to do it again.
  expect((await it.log(other.id)).filter(({ type }) => type === 'prompt.queued')).toHaveLength(1)
  const third = await it.run('run `git status`', { autonomy: 'supervised' })
  expect(third.events.filter(({ type }) => type === 'request.opened')).toEqual([])
}, 120_000)
