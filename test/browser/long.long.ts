import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout } from 'node:timers/promises'
import { availableParallelism, loadavg } from 'node:os'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Installation, installation } from '../e2e/installation.ts'
import { devices, loggedIn, openBrowser, openTab } from './browser.ts'

const count = 100_000
const pagesBack = 20
const eventsPerPage = 200

let it: Installation
let browser: Browser
let id: string
beforeAll(async () => {
  ;[it, browser] = await Promise.all([installation(), openBrowser()])
  const { session } = await it.run('say hello', { name: 'Long' })
  id = session.id
  await it.cli(['down', '--all'])
  fill(join(it.state, 'anchorhold.db'), session.id, session.active_at)
  await it.up()
})
afterAll(async () => {
  await browser.close()
  await it[Symbol.asyncDispose]()
})

/** Through the store directly: an agent would take days. */
function fill(path: string, session: string, at: number): void {
  const database = new DatabaseSync(path)
  const { last } = database.prepare('select max(seq) as last from event where session_id = ?').get(session) as { last: number }
  database.exec('begin')
  const insert = database.prepare(
    `insert into event (session_id, seq, source, n, at, type, body) values (?, ?, 'test', ?, ?, 'text', ?)`,
  )
  for (let n = 1; n <= count; n++) {
    const text = `Line ${n}. ${'More of it. '.repeat((n * 7) % 11)}`
    insert.run(session, last + n, n, at, JSON.stringify({ block: `long-${n}`, text }))
  }
  database.prepare('update session set last_seq = ? where id = ?').run(last + count, session)
  database.exec('commit')
  database.close()
}

/** What the page holds when all that can be let go is let go. */
async function heldBy(page: Page): Promise<{ readonly heap: number; readonly nodes: number }> {
  const protocol = await page.context().newCDPSession(page)
  await protocol.send('HeapProfiler.collectGarbage')
  const { usedSize } = await protocol.send('Runtime.getHeapUsage')
  const nodes = await page.evaluate(() => document.querySelectorAll('*').length)
  await protocol.detach()
  return { heap: usedSize, nodes }
}

/** A browser loads parts of its own for every window that it makes: what is measured is the page alone. */
async function atRest(): Promise<void> {
  const protocol = await browser.newBrowserCDPSession()
  const spent = async () => {
    const { processInfo } = await protocol.send('SystemInfo.getProcessInfo')
    return processInfo.reduce((seconds, { cpuTime }) => seconds + cpuTime, 0)
  }
  for (let still = 0, was = await spent(); still < 5;) {
    await setTimeout(100)
    const is = await spent()
    still = is - was < 0.02 ? still + 1 : 0
    was = is
  }
  await protocol.detach()
}

/** From when the address was opened until the newest page was painted, by the page's own clock: the loading of the app is in it. */
async function openedByAddress(context: BrowserContext): Promise<number> {
  const tab = await openTab(context, it)
  await tab.page.addInitScript((line) => {
    const look = () => {
      const there = [...document.querySelectorAll('[data-row-key]')].some((row) => row.textContent?.startsWith(line))
      requestAnimationFrame(there ? () => Object.assign(globalThis, { paintedAt: performance.now() }) : look)
    }
    look()
  }, `Line ${count}.`)
  await atRest()
  const asked: string[] = []
  tab.page.on('request', (request) => void asked.push(request.url()))
  await tab.go(`/sessions/${id}`)
  const found = await tab.page.waitForFunction(() => (globalThis as { paintedAt?: number }).paintedAt)
  const paintedAt = (await found.jsonValue())!
  // What the door had the browser ask for ahead is what the page uses.
  expect(asked.filter((url) => url.includes('/events?before=') && url.includes(id))).toHaveLength(1)
  expect(tab.wrong).toEqual([])
  await tab.page.close()
  return paintedAt
}

test.each(['phone', 'desktop'] as const satisfies (keyof typeof devices)[])(
  'on a %s a session of 100,000 events opens at its end, nothing jumps through twenty pages, and memory stays flat',
  async (device) => {
    const { page, context, wrong, go } = await loggedIn(browser, device, it)
    // The code is there already, as it is for who comes from the list.
    await go(`/sessions/${id}?tab=cost`)
    await page.getByRole('region', { name: 'Cost' }).waitFor()
    await go('/')
    await page.getByText('Long').first().waitFor()
    const painted: number[] = []
    for (let n = 0; n < 5; n++) {
      await go('/')
      await page.getByText('Long').first().waitFor()
      painted.push(
        await page.evaluate(
          ([address, line]) =>
            new Promise<number>((resolve) => {
              const since = performance.now()
              const look = () => {
                const there = [...document.querySelectorAll('[data-row-key]')].some((row) => row.textContent?.startsWith(line))
                if (there) requestAnimationFrame(() => resolve(performance.now() - since))
                else requestAnimationFrame(look)
              }
              document.querySelector<HTMLAnchorElement>(`a[href^="${address}"]`)?.click()
              look()
            }),
          [`/sessions/${id}`, `Line ${count}.`] as const,
        ),
      )
    }
    const cookies = await context.cookies()
    const [cold, warm]: [number[], number[]] = [[], []]
    for (let n = 0; n < 5; n++) {
      // A browser that has never been here, but for who it is.
      const fresh = await browser.newContext(devices[device])
      await fresh.addCookies(cookies)
      cold.push(await openedByAddress(fresh))
      await fresh.close()
      warm.push(await openedByAddress(context))
    }
    const list = (all: readonly number[]) => all.map((ms) => Math.round(ms)).join(', ')
    console.log(
      `${device}: the newest page of ${count} events is painted ${list(painted)} ms after the tap; opened by its address, ${list(cold)} ms after that without anything kept, and ${list(warm)} ms with the service worker (load ${loadavg()[0]!.toFixed(1)} on ${availableParallelism()} cores)`,
    )
    await go(`/sessions/${id}`)
    await page.getByText(`Line ${count}.`).waitFor()

    const before = await heldBy(page)
    const log = page.getByRole('region', { name: 'Conversation' })
    const walked = await log.evaluate(
      async (view, lowestWanted) => {
        const frame = () => new Promise((resolve) => requestAnimationFrame(resolve))
        const rows = () => [...view.querySelectorAll<HTMLElement>('[data-row-key]')]
        const numberOf = (row: Element) => Number(/long-(\d+)$/.exec(row.getAttribute('data-row-key') ?? '')?.[1])
        const topOf = (row: Element) => row.getBoundingClientRect().top
        const edge = topOf(view)
        const framesMax = 60
        let most = 0
        let steps = 0
        const jumps: string[] = []
        for (let lowest = Infinity; lowest > lowestWanted;) {
          const held = rows().find((row) => topOf(row) >= edge)
          if (held === undefined) return { jumps: ['there was nothing to see'], most, steps }
          const key = held.dataset['rowKey']
          const top = topOf(held)
          const from = view.scrollTop
          // What is held stays in sight, however much of the screen the conversation has.
          view.scrollBy(0, -Math.floor(view.clientHeight * 0.6))
          const moved = from - view.scrollTop
          const find = () => rows().find((row) => row.dataset['rowKey'] === key)
          // Rows that come in are measured on the way: it has gone where it goes when it has stood for three frames.
          for (let still = 0, was = Number.NaN, frames = 0; still < 3 && frames < framesMax; frames++) {
            await frame()
            const is = topOf(find() ?? view)
            still = is === was ? still + 1 : 0
            was = is
          }
          const now = find()
          if (now === undefined || Math.abs(topOf(now) - top - moved) > 2)
            jumps.push(`${key} went ${now === undefined ? 'away' : topOf(now) - top} instead of ${moved}`)
          most = Math.max(most, rows().length)
          steps++
          lowest = Math.min(lowest, ...rows().map(numberOf))
        }
        return { jumps, most, steps }
      },
      count - pagesBack * eventsPerPage,
    )
    const after = await heldBy(page)
    console.log(
      `${device}: ${walked.steps} steps up; heap ${(before.heap / 1e6).toFixed(1)} → ${(after.heap / 1e6).toFixed(1)} MB, elements ${before.nodes} → ${after.nodes}, rows at most ${walked.most}`,
    )
    expect(walked.jumps).toEqual([])
    // Only what is seen is in the page, however much was read; what was read is text of a few kilobytes a page.
    expect(walked.most).toBeLessThan(120)
    expect(after.nodes / before.nodes).toBeLessThan(2)
    expect(after.heap / before.heap).toBeLessThan(2)
    expect(wrong).toEqual([])
    await context.close()
  },
)
