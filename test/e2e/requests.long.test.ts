import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type Askable, type Asking, ask, askingInstallation, holdRequests, kill, kinds, type Victim } from './asking.ts'
import { sessionsOf } from './both-doors.ts'
import { type Installation, outputsOf, textOf, until } from './installation.ts'
import { fromOutside } from './outside.ts'

let asked: Askable
let it: Installation
beforeAll(async () => {
  asked = await askingInstallation()
  it = asked.it
})
afterAll(async () => {
  await asked[Symbol.asyncDispose]()
})
const { session, archiveAll } = sessionsOf(() => it)
afterEach(archiveAll)

/** Answers by both doors at the same moment, several times: one wins, and the others hear who it was. */
async function answerOnce({ request }: Asking): Promise<void> {
  const byCli = async () => {
    const { code, err } = await it.cli(['allow', request])
    if (code !== 0) throw new Error(err)
  }
  const byHttp = () => it.api.answerRequest({ params: { id: request }, body: { decision: 'allow' } })
  const tries = await Promise.allSettled([byHttp(), byCli(), byHttp()])
  const refused = tries.flatMap((one) => (one.status === 'rejected' ? [String(one.reason)] : []))
  expect(refused).toHaveLength(2)
  for (const words of refused) expect(words).toMatch(/already settled at 20\S+ \(door: (http|cli)\): allowed by \S+/)
}

/** It happened once, and everybody rests. */
async function happenedOnce(asking: Asking): Promise<void> {
  await until(async () => (await asking.times()) > 0)
  await until(async () => (await session(asking.session)).state === 'ready')
  expect(await asking.times()).toBe(1)
  const log = await it.log(asking.session)
  holdRequests(log)
  expect(log.filter(({ type }) => type === 'request.opened')).toHaveLength(1)
  expect(log.flatMap((event) => (event.type === 'grant.used' ? [event.body.request] : []))).toEqual([asking.request])
  if (asking.kind === 'spend') expect(textOf(log)).not.toBe('')
}

test.each(['nobody', 'daemon', 'gate', 'keeper', 'all'] as const satisfies readonly Victim[])(
  'requests of every kind outlive the death of %s, are answered once from either door, and each happens once',
  async (victim) => {
    const all = await Promise.all(kinds.map((kind) => ask(asked, kind)))
    await kill(it, victim)
    await until(async () => (await it.api.listRequests()).requests.length === all.length)
    const { requests: open } = await it.api.listRequests()
    expect(new Set(open.map(({ id }) => id))).toEqual(new Set(all.map(({ request }) => request)))
    const { out } = await it.cli(['requests'])
    for (const { request } of all) expect(out).toContain(request)
    for (const one of all) await answerOnce(one)
    for (const one of all) await happenedOnce(one)
    expect((await it.api.listRequests()).requests).toEqual([])
  },
  180_000,
)

test.each(['http', 'https'] as const)(
  'a blocked call by %s waits while the daemon is started again: allowed, the same curl goes on; denied, the agent reads why',
  async (scheme) => {
    const [yes, no] = await Promise.all([ask(asked, scheme), ask(asked, scheme)])
    await kill(it, 'daemon')
    expect((await it.cli(['allow', yes.request])).code).toBe(0)
    await it.api.answerRequest({ params: { id: no.request }, body: { decision: 'deny', reason: 'the moon is wrong' } })
    await happenedOnce(yes)
    await until(async () => (await session(no.session)).state === 'ready')
    const [went, refused] = [await it.log(yes.session), await it.log(no.session)]
    expect(outputsOf(went)).toContain(fromOutside)
    for (const log of [went, refused]) {
      expect(log.filter(({ type }) => type === 'tool.started')).toHaveLength(1)
      expect(log.flatMap((event) => (event.type === 'turn.started' ? [event.body.cause] : []))).toEqual(['prompt'])
    }
    expect(await no.times()).toBe(0)
    expect(outputsOf(refused)).toContain('owner denied it: the moon is wrong')
  },
  120_000,
)
