import type { Event } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import { setTimeout as wait } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { type Asking, ask, askingInstallation, holdRequests, kill, kinds, type Victim } from '../e2e/asking.ts'
import { until } from '../e2e/installation.ts'
import { seeded } from '../seeded.ts'

const points = Number(process.env.CHAOS_POINTS ?? 50)
const seed = Number(process.env.CHAOS_SEED ?? 1)
const victims: readonly Victim[] = ['keeper', 'gate', 'daemon', 'all', 'nobody']
/** Those whose death no waiting process notices. */
const unnoticed: readonly string[] = ['daemon', 'nobody']

test(`what was allowed happens once, whatever dies around its asking and its answer, at ${points} points (seed ${seed})`, async () => {
  const random = seeded(seed)
  const any = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)]!
  await using askable = await askingInstallation()
  const { it } = askable
  let happened = 0
  const went = new Map<string, number>()
  for (let point = 0; point < points; point++) {
    const all = await Promise.all(kinds.map((kind) => ask(askable, kind)))
    const [before, after] = [any([...victims, 'parking'] as const), any(victims)]
    const name = `point ${point}: ${before}, then ${after}`
    await wait(random() * 300)
    if (before === 'parking') await Promise.all(all.map(({ request }) => later(request)))
    else await kill(it, before)
    await until(async () => (await it.api.listRequests()).requests.length === all.length)
    // Something dies at some moment between the answers and all that follows from them.
    const answers = all.map((asking) => answer(asking, any(['cli', 'http'])))
    await wait(random() * 600)
    await kill(it, after)
    for (const [index, asking] of all.entries()) {
      const won = await answers[index]!
      // Whoever saw no answer of the daemon's tries again, and finds it given or gives it.
      const again = won === 1 ? 0 : await answer(asking, 'http')
      expect([name, asking.kind, won + again]).toEqual([name, asking.kind, expect.toBeOneOf([0, 1])])
    }
    try {
      for (const asking of all) await settled(asking, name, unnoticed.includes(before) && unnoticed.includes(after))
      expect((await it.api.listRequests()).requests).toEqual([])
    } catch (error) {
      for (const { session } of all) console.log((await it.log(session)).map((event) => JSON.stringify(event).slice(0, 300)))
      throw error
    }
    await Promise.all(all.map(({ session }) => it.api.archive({ params: { id: session } })))
  }
  console.log(
    `${points} points, ${points * kinds.length} requests, ${happened} happened: ${[...went].map((one) => one.join(' ')).join(', ')}`,
  )

  async function later(id: string): Promise<void> {
    await it.api.answerRequest({ params: { id }, body: { decision: 'later' } })
  }

  /** Answers by two doors at once, or by one twice; says how many were told that theirs is the answer. */
  async function answer({ request: id }: Asking, second: 'cli' | 'http'): Promise<number> {
    const byHttp = () => it.api.answerRequest({ params: { id }, body: { decision: 'allow' } })
    const byCli = async () => {
      const { code, err } = await it.cli(['allow', id])
      if (code !== 0) throw new Error(err)
    }
    const tries = await Promise.allSettled([byHttp(), second === 'cli' ? byCli() : byHttp()])
    return tries.filter(({ status }) => status === 'fulfilled').length
  }

  /** What a gate that was killed over a call had set aside for it is spent: to make the call again costs as much again. */
  const isCutShort = (log: readonly Event[]) => log.some((event) => event.type === 'usage' && event.body.estimated)
  async function payAgain(id: SessionId): Promise<void> {
    const { requests } = await it.api.listRequests({ query: { session: id } })
    for (const { id: request, action } of requests)
      if (action.kind === 'spend') await it.api.answerRequest({ params: { id: request }, body: { decision: 'allow' } })
  }

  async function settled(asking: Asking, name: string, nobodyNoticed: boolean): Promise<void> {
    const params = { id: asking.session }
    expect(await it.api.getRequest({ params: { id: asking.request } })).toMatchObject({ answer: { decision: 'allow' } })
    // What was taken when its keeper died is used: a person may have to say how it goes on.
    await until(async () => {
      const session = await it.api.getSession({ params })
      expect(session.state === 'failed' ? [name, session.why] : null).toBeNull()
      if (session.queued_prompts > 0 || session.state === 'working') return false
      const log = await it.log(asking.session)
      if (session.state === 'waiting' && isCutShort(log)) await payAgain(asking.session)
      return session.state === 'interrupted' || (session.state === 'ready' && log.some(({ type }) => type === 'request.told'))
    })
    const log = await it.log(asking.session)
    holdRequests(log)
    const times = await asking.times()
    const allowed = nobodyNoticed ? [1] : [0, 1]
    expect([name, asking.kind, times]).toEqual([name, asking.kind, expect.toBeOneOf(allowed)])
    const causes = log.flatMap((event) => (event.type === 'turn.started' ? [event.body.cause] : []))
    // Where its processes live, what waits goes on by itself: the same program, in the same connection.
    if (nobodyNoticed) expect([name, asking.kind, causes]).toEqual([name, asking.kind, ['prompt']])
    const how = times === 0 ? 'not done' : causes.includes('resume') ? 'done again' : 'went on'
    went.set(how, (went.get(how) ?? 0) + 1)
    happened += times
  }
})
