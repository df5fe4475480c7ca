import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type Asking, ask, holdRequests, kill, kinds, type Victim } from './asking.ts'
import { sessionsOf } from './both-doors.ts'
import { type Installation, installation, textOf, until } from './installation.ts'

let it: Installation
beforeAll(async () => {
  it = await installation({ env: { ANCHORHOLD_TEST_EDGE: '1' }, config: 'spare_keeper: false\n' })
})
afterAll(async () => {
  await it[Symbol.asyncDispose]()
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
  for (const words of refused) expect(words).toMatch(/settled already: allow by \S+ at 20\S+ \(door: http\)/)
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
  'requests of all four kinds outlive the death of %s, are answered once from either door, and each happens once',
  async (victim) => {
    const asked = await Promise.all(kinds.map((kind) => ask(it, kind)))
    await kill(it, victim)
    await until(async () => (await it.api.listRequests()).requests.length === 4)
    const { requests: open } = await it.api.listRequests()
    expect(new Set(open.map(({ id }) => id))).toEqual(new Set(asked.map(({ request }) => request)))
    const { out } = await it.cli(['requests'])
    for (const { request } of asked) expect(out).toContain(request)
    for (const one of asked) await answerOnce(one)
    for (const one of asked) await happenedOnce(one)
    expect((await it.api.listRequests()).requests).toEqual([])
  },
  180_000,
)
