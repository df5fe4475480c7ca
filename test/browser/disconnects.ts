import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { expect } from 'vitest'
import { type Installation, until } from '../e2e/installation.ts'
import { seeded } from '../seeded.ts'
import { loggedIn, openTab } from './browser.ts'
import { showsAll } from './transcript.ts'

export const ways = [
  'offline',
  'offline and on and off',
  'tab asleep',
  'asleep and offline',
  'tab opened anew',
  'daemon killed',
] as const
export type Way = (typeof ways)[number]

export type Disconnect = {
  readonly way: Way
  /** From when the connection was back until both tabs showed what happened last. */
  readonly caughtUpMs: number
  /** All of it, for whoever wants to know where a run's time goes. */
  readonly tookMs: number
}

type World = { readonly browser: Browser; readonly it: Installation }
export type RunOptions = { readonly seed: number; readonly rounds: number; readonly lanes: number }

/** One run: sessions side by side, each with two tabs that look on and write, and connections that break in ways that follow from the
 *  seed. A daemon that is killed is killed for all of them. At its end each tab must show what the log says, each event once and in
 *  order. */
export async function disconnectsRun(world: World, { seed, rounds, lanes }: RunOptions): Promise<readonly Disconnect[]> {
  const random = seeded(seed)
  const all = await Promise.all(
    Array.from({ length: lanes }, (_, number) => openLane(world, `${seed}.${number}`, seeded(seed * 1000 + number))),
  )
  const done: Disconnect[] = []
  try {
    for (let round = 0; round < rounds; round++) {
      // A daemon takes its time to start: it is killed in every twentieth round or so.
      if (random() < 0.05) {
        const began = performance.now()
        await Promise.all(all.map((lane) => lane.change()))
        const { pid } = JSON.parse(readFileSync(join(world.it.state, 'daemon.json'), 'utf8')) as { pid: number }
        process.kill(pid, 'SIGKILL')
        await world.it.up()
        done.push(...(await Promise.all(all.map((lane) => lane.catchUp('daemon killed', began)))))
        continue
      }
      done.push(...(await Promise.all(all.map((lane) => lane.disconnect()))))
    }
    await Promise.all(all.map((lane) => lane.end()))
    return done
  } finally {
    await Promise.all(all.map((lane) => lane.close()))
  }
}

interface Lane {
  /** Something happens in its session that nobody of it needs to hear of now. */
  change(): Promise<void>
  /** Breaks the connection of its tabs in some way, and waits until they have caught up. */
  disconnect(): Promise<Disconnect>
  catchUp(way: Way, began: number): Promise<Disconnect>
  /** Compares what its tabs show with what the log says. */
  end(): Promise<void>
  close(): Promise<void>
}

async function openLane({ browser, it }: World, label: string, random: () => number): Promise<Lane> {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!
  const { page: one, context, go, wrong } = await loggedIn(browser, 'desktop', it)
  const { page: two, go: goTwo } = await openTab(context, it)
  const tabs = [one, two] as const
  const { id } = await it.api.createSession({ body: { name: 'Begin' } })
  await Promise.all([go(`/sessions/${id}`), goTwo(`/sessions/${id}`)])
  const protocols = await Promise.all(tabs.map((page) => context.newCDPSession(page)))
  const freeze = (state: 'frozen' | 'active') =>
    Promise.all(protocols.map((protocol) => protocol.send('Page.setWebLifecycleState', { state })))
  const said: string[] = []
  let changes = 0
  const change = async (count = 1 + Math.floor(random() * 4)) => {
    for (let n = 0; n < count; n++) await it.api.changeSession({ params: { id }, body: { name: `${label}-${++changes}` } })
  }
  const shown = async () => {
    for (const page of tabs) {
      // Chromium draws a tab that is behind another once a second, whatever is in it.
      await page.bringToFront()
      await page.getByText(`Renamed to “${label}-${changes}”`).first().waitFor()
    }
  }
  const say = async (page: Page, text: string) => {
    await page.getByRole('textbox', { name: 'Prompt' }).fill(text)
    await page.getByRole('button', { name: 'Send' }).click()
  }
  await change(1)
  await shown()

  async function catchUp(way: Way, began: number): Promise<Disconnect> {
    const since = performance.now()
    await change(1)
    await shown()
    return { way, caughtUpMs: performance.now() - since, tookMs: performance.now() - began }
  }

  const breaks = {
    async offline() {
      await context.setOffline(true)
      await change()
      // What is written meanwhile is kept, and sent once.
      if (random() < 0.15) {
        said.push(`say word ${said.length}`)
        await say(pick(tabs), said.at(-1)!)
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
    async 'tab asleep'() {
      await freeze('frozen')
      await change()
      await freeze('active')
    },
    async 'asleep and offline'() {
      await freeze('frozen')
      await context.setOffline(true)
      await change()
      await freeze('active')
      await context.setOffline(false)
    },
    async 'tab opened anew'() {
      const gone = pick(tabs).reload()
      await change()
      await gone
    },
  } satisfies Record<Exclude<Way, 'daemon killed'>, () => Promise<void>>

  return {
    change,
    catchUp,
    async disconnect() {
      const began = performance.now()
      const way = pick(Object.keys(breaks) as (keyof typeof breaks)[])
      await breaks[way]()
      return catchUp(way, began)
    },
    close: () => context.close(),
    async end() {
      for (const page of tabs)
        await until(() => page.evaluate(() => localStorage.getItem('anchorhold.outbox') ?? '[]').then((left) => left === '[]'))
      const ended = async () => (await it.log(id)).filter(({ type }) => type === 'turn.ended').length
      await until(async () => {
        const { state, queued_prompts: queued } = await it.api.getSession({ params: { id } })
        return queued === 0 && state === 'ready' && (said.length === 0 || (await ended()) > 0)
      })
      const log = await it.log(id)
      expect(log.map(({ seq }) => seq)).toEqual(log.map((_, index) => index + 1))
      const prompts = log.flatMap((event) => (event.type === 'prompt.queued' ? [event.body.text] : []))
      expect(prompts.toSorted(), label).toEqual(said.toSorted())
      for (const page of tabs) {
        await showsAll(page, () => it.log(id), label)
      }
      // The last is of a service worker that looked for a newer one of itself without a network.
      expect(wrong.filter((what) => !/ERR_|Failed to fetch|fetching the script/.test(what))).toEqual([])
      await it.api.archive({ params: { id } })
    },
  }
}

/** How long it took to catch up, of all and by kind, and where the time of the run went. */
export function figures(all: readonly Disconnect[]): string {
  const spread = (list: readonly Disconnect[]) => {
    const sorted = list.map(({ caughtUpMs }) => caughtUpMs).toSorted((a, b) => a - b)
    const at = (share: number) => Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0)
    return `${at(0.5)} ms (median), ${at(0.99)} ms (99 %), ${at(1)} ms (the longest)`
  }
  const kinds = ways.flatMap((way) => {
    const of = all.filter((one) => one.way === way)
    if (of.length === 0) return []
    const each = of.reduce((sum, { tookMs }) => sum + tookMs, 0) / of.length
    return [`  ${way}: ${of.length}, caught up in ${spread(of)}; each took ${Math.round(each)} ms`]
  })
  return [`${all.length} disconnects, caught up in ${spread(all)}`, ...kinds].join('\n')
}
