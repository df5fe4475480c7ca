import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser, CDPSession, Page } from 'playwright-core'
import { expect } from 'vitest'
import { type Installation, until } from '../e2e/installation.ts'
import { seeded } from '../seeded.ts'
import { loggedIn, openTab } from './browser.ts'
import { rowsOf, shownOf, wantedOf } from './transcript.ts'

export type Disconnected = {
  /** How long both tabs took from when the connection was back until they showed the newest event, each time. */
  readonly caughtUpMs: readonly number[]
  readonly kinds: Readonly<Record<string, number>>
}

/** One run: a session with two tabs that look on and write, and connections that break in ways that follow from the seed. At its end
 *  both tabs must show what the log says, each event once and in order. */
export async function disconnectsRun(
  { browser, it }: { readonly browser: Browser; readonly it: Installation },
  { seed, rounds }: { readonly seed: number; readonly rounds: number },
): Promise<Disconnected> {
  const random = seeded(seed)
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!
  const { page: one, context, go, wrong } = await loggedIn(browser, 'desktop', it)
  const { page: two, go: goTwo } = await openTab(context, it)
  const { id } = await it.api.createSession({ body: { name: 'Begin' } })
  await Promise.all([go(`/sessions/${id}`), goTwo(`/sessions/${id}`)])
  const sessions: CDPSession[] = await Promise.all([one, two].map((page) => context.newCDPSession(page)))
  const freeze = (state: 'frozen' | 'active') =>
    Promise.all(sessions.map((session) => session.send('Page.setWebLifecycleState', { state })))
  let changes = 0
  const change = async (count: number) => {
    for (let n = 0; n < count; n++) await it.api.changeSession({ params: { id }, body: { name: `${seed}-${++changes}` } })
  }
  const shows = (page: Page, name: string) => page.getByText(`Renamed to “${name}”`).first().waitFor()
  const say = async (page: Page, text: string) => {
    await page.getByRole('textbox', { name: 'Prompt' }).fill(text)
    await page.getByRole('button', { name: 'Send' }).click()
  }
  const some = () => 1 + Math.floor(random() * 4)
  await change(1)
  await Promise.all([one, two].map((page) => shows(page, `${seed}-${changes}`)))

  const caughtUpMs: number[] = []
  const kinds: Record<string, number> = {}
  const said: string[] = []
  const ways = {
    async offline() {
      await context.setOffline(true)
      await change(some())
      // What is written meanwhile is kept, and sent once.
      if (random() < 0.15) {
        said.push(`say word ${said.length}`)
        await say(pick([one, two]), said.at(-1)!)
      }
      await context.setOffline(false)
    },
    async 'offline and on and off'() {
      for (let n = 0; n < 3; n++) {
        await context.setOffline(true)
        await change(1)
        await context.setOffline(false)
        if (random() < 0.5) await change(1)
      }
    },
    async 'daemon killed'() {
      await change(some())
      const { pid } = JSON.parse(readFileSync(join(it.state, 'daemon.json'), 'utf8')) as { pid: number }
      process.kill(pid, 'SIGKILL')
      await it.up()
    },
    async 'tab asleep'() {
      await freeze('frozen')
      await change(some())
      await freeze('active')
    },
    async 'asleep and offline'() {
      await freeze('frozen')
      await context.setOffline(true)
      await change(some())
      await freeze('active')
      await context.setOffline(false)
    },
    async 'tab opened anew'() {
      const page = pick([one, two])
      const gone = page.reload()
      await change(some())
      await gone
    },
  }
  type Way = keyof typeof ways
  // A daemon takes its time to start: it is killed in every twentieth round or so.
  const usual = (Object.keys(ways) as Way[]).filter((way) => way !== 'daemon killed')
  for (let round = 0; round < rounds; round++) {
    const way: Way = random() < 0.05 ? 'daemon killed' : pick(usual)
    kinds[way] = (kinds[way] ?? 0) + 1
    await ways[way]()
    await change(1)
    const since = performance.now()
    await Promise.all([one, two].map((page) => shows(page, `${seed}-${changes}`)))
    caughtUpMs.push(performance.now() - since)
  }
  const turnsOf = async () => (await it.log(id)).filter(({ type }) => type === 'turn.ended').length
  await until(async () => {
    const { state, queued_prompts: queued } = await it.api.getSession({ params: { id } })
    return queued === 0 && state === 'ready' && (said.length === 0 || (await turnsOf()) > 0)
  })
  const log = await it.log(id)
  expect(log.map(({ seq }) => seq)).toEqual(log.map((_, index) => index + 1))
  const prompts = log.flatMap((event) => (event.type === 'prompt.queued' ? [event.body.text] : []))
  expect(prompts.toSorted()).toEqual(said.toSorted())
  for (const page of [one, two]) {
    await until(() => page.evaluate(() => localStorage.getItem('anchorhold.outbox') ?? '[]').then((left) => left === '[]'))
    expect(shownOf(await rowsOf(page)), `seed ${seed}`).toEqual(wantedOf(await it.log(id)))
  }
  expect(wrong.filter((what) => !/ERR_|Failed to fetch/.test(what))).toEqual([])
  await it.api.archive({ params: { id } })
  await context.close()
  return { caughtUpMs, kinds }
}

export function figures(all: readonly number[]): string {
  const sorted = all.toSorted((a, b) => a - b)
  const at = (share: number) => Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0)
  return `caught up in ${at(0.5)} ms (median), ${at(0.95)} ms (95 %), ${at(1)} ms (the longest)`
}
