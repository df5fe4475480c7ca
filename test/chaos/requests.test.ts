import { setTimeout as wait } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { ask, holdRequests, kill, kinds, type Victim } from '../e2e/asking.ts'
import { installation, until } from '../e2e/installation.ts'
import { seeded } from '../seeded.ts'

const points = Number(process.env.CHAOS_POINTS ?? 50)
const seed = Number(process.env.CHAOS_SEED ?? 1)
const victims: readonly Victim[] = ['keeper', 'gate', 'daemon', 'all', 'nobody']

test(`what was allowed happens once, whatever dies around its asking and its answer, at ${points} points (seed ${seed})`, async () => {
  const random = seeded(seed)
  const any = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)]!
  await using it = await installation({ env: { ANCHORHOLD_TEST_EDGE: '1' }, config: 'spare_keeper: false\n' })
  const deaths: string[] = []
  let happened = 0
  for (let point = 0; point < points; point++) {
    const kind = any(kinds)
    const asking = await ask(it, kind)
    const [before, after] = [any(victims), any(victims)]
    deaths.push(`${kind}: ${before}, then ${after}`)
    await wait(random() * 300)
    await kill(it, before)
    await until(async () => (await it.api.getRequest({ params: { id: asking.request } })).answer === null)
    // Something dies at some moment between the answer and all that follows from it.
    const answer = () => it.api.answerRequest({ params: { id: asking.request }, body: { decision: 'allow' } })
    const answered = answer().then(
      () => true,
      () => false,
    )
    await wait(random() * 600)
    await kill(it, after)
    // Whoever saw no answer of the daemon's tries again, and finds it given or gives it.
    if (!(await answered)) await answer().catch(() => {})
    expect(await it.api.getRequest({ params: { id: asking.request } })).toMatchObject({ answer: { decision: 'allow' } })
    // A grant that was taken when its keeper died is used: a person may have to say how it goes on.
    await until(async () => {
      const session = await it.api.getSession({ params: { id: asking.session } })
      expect(session.state === 'failed' ? [deaths.at(-1), session.why] : null).toBeNull()
      if (session.queued_prompts > 0 || session.state === 'working') return false
      return session.state === 'interrupted' || (session.state === 'ready' && ((await asking.times()) > 0 || session.turns > 1))
    })
    const log = await it.log(asking.session)
    holdRequests(log)
    expect([deaths.at(-1), await asking.times()]).toEqual([deaths.at(-1), expect.toBeOneOf([0, 1])])
    happened += await asking.times()
    await it.api.archive({ params: { id: asking.session } })
  }
  console.log(
    `${points} points, ${happened} happened: ${[...Map.groupBy(deaths, (one) => one.split(':')[0]!)].map(([kind, all]) => `${all.length} ${kind}`).join(', ')}`,
  )
})
