import type { SessionId } from '@anchorhold/protocol/ids'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { loggedIn, openBrowser, openTab } from './browser.ts'
import { type Installation, installation, until } from '../e2e/installation.ts'

let it: Installation
let browser: Browser
beforeAll(async () => {
  ;[it, browser] = await Promise.all([installation({ samePort: true }), openBrowser()])
})
afterAll(async () => {
  await browser.close()
  await it[Symbol.asyncDispose]()
})

const settled = (page: Page) => page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => resolve(null))))

/** Every row of a conversation, from its first to its last, by its key. */
async function rowsOf(page: Page): Promise<string[]> {
  const keys: string[] = []
  const log = page.getByRole('region', { name: 'Conversation' })
  // Rows that are measured on the way up move it a little: it is at the top when it stays there.
  for (let still = 0; still < 3;) {
    still = (await log.evaluate((element) => element.scrollTop)) === 0 ? still + 1 : 0
    await log.evaluate((element) => element.scrollTo(0, 0))
    await settled(page)
  }
  for (;;) {
    await settled(page)
    await settled(page)
    for (const key of await log
      .locator('[data-row-key]')
      .evaluateAll((rows) => rows.map((row) => row.getAttribute('data-row-key') ?? '')))
      if (!keys.includes(key)) keys.push(key)
    const end = await log.evaluate((element) => {
      const before = element.scrollTop
      element.scrollBy(0, 400)
      return element.scrollTop === before
    })
    if (end) return keys
  }
}

/** What the log itself says that a page must show, in this order. */
async function wanted(id: SessionId): Promise<string[]> {
  return (await it.log(id)).flatMap((event) =>
    event.type === 'prompt' ? [`prompt ${event.body.id}`] : event.type === 'text' ? [`block ${event.body.block}`] : [],
  )
}
const shown = (keys: readonly string[]) => keys.filter((key) => /^(prompt|block) /.test(key))

test('two tabs, a network that goes and comes, a daemon that is killed: nothing is lost, twice or out of order', async () => {
  const { page: one, context, wrong } = await loggedIn(browser, 'desktop', it)
  const { page: two } = await openTab(context, it)
  const { id } = await it.api.createSession({ body: { prompt: { text: 'say first' } } })
  const home = `http://localhost:${new URL(it.url).port}`
  await Promise.all([one.goto(`${home}/sessions/${id}`), two.goto(`${home}/sessions/${id}`)])
  const say = async (page: Page, text: string) => {
    await page.getByRole('textbox', { name: 'Prompt' }).fill(text)
    await page.getByRole('button', { name: 'Send' }).click()
  }
  const heard = (page: Page, text: string) => page.getByRole('log').getByText(text, { exact: true }).first().waitFor()
  await Promise.all([heard(one, 'first'), heard(two, 'first')])

  for (let round = 1; round <= 6; round++) {
    if (round % 3 === 0) {
      const { pid } = JSON.parse(readFileSync(join(it.state, 'daemon.json'), 'utf8')) as { pid: number }
      process.kill(pid, 'SIGKILL')
      await one
        .getByText(/Reconnecting|Offline/)
        .first()
        .waitFor()
      await say(one, `say killed ${round}`)
      await say(one, `say and more ${round}`)
      await one
        .getByText(/Kept on this device/)
        .first()
        .waitFor()
      await it.up()
    } else {
      await context.setOffline(true)
      await one
        .getByText(/Offline|Reconnecting/)
        .first()
        .waitFor()
      await say(round % 2 === 0 ? one : two, `say killed ${round}`)
      await say(round % 2 === 0 ? one : two, `say and more ${round}`)
      await context.setOffline(false)
    }
    await Promise.all([one, two].map((page) => heard(page, `and more ${round}`)))
  }
  await until(async () => (await it.api.getSession({ params: { id } })).state === 'ready')

  const prompts = (await it.log(id)).flatMap((event) => (event.type === 'prompt.queued' ? [event.body.text] : []))
  expect(prompts).toEqual(['say first', ...[1, 2, 3, 4, 5, 6].flatMap((n) => [`say killed ${n}`, `say and more ${n}`])])
  for (const page of [one, two]) {
    expect(shown(await rowsOf(page))).toEqual(await wanted(id))
    expect(await page.evaluate(() => localStorage.getItem('anchorhold.outbox'))).toBe('[]')
  }
  expect(wrong.filter((what) => !/ERR_|Failed to fetch/.test(what))).toEqual([])
  await context.close()
}, 240_000)

test('without a network the app opens with the last known list, and comes back by itself', async () => {
  const { page, context } = await loggedIn(browser, 'phone', it)
  const { id } = await it.api.createSession({ body: { name: 'Known before', prompt: { text: 'say hello' } } })
  await page.getByText('Known before').waitFor()
  await page.evaluate(() => navigator.serviceWorker.ready.then(() => null))
  await until(() => page.evaluate(() => localStorage.getItem('anchorhold.sessions')?.includes('Known before') ?? false))
  await context.setOffline(true)
  await page.reload()
  await page.getByText('Known before').waitFor()
  await page
    .getByText(/Offline|Reconnecting/)
    .first()
    .waitFor()
  await context.setOffline(false)
  await page.getByRole('link', { name: /Known before/ }).click()
  await page.getByRole('log').getByText('hello', { exact: true }).first().waitFor()
  expect(page.url()).toContain(id)
  await context.close()
}, 120_000)

test('a session of 100,000 events opens at its end, and nothing jumps on the way up through twenty pages', async () => {
  const { session } = await it.run('say hello', { name: 'Long' })
  await it.cli(['down', '--all'])
  const count = 100_000
  const database = new DatabaseSync(join(it.state, 'anchorhold.db'))
  const { last } = database.prepare('select max(seq) as last from event where session_id = ?').get(session.id) as { last: number }
  database.exec('begin')
  const insert = database.prepare(
    `insert into event (session_id, seq, source, n, at, type, body) values (?, ?, 'test', ?, ?, 'text', ?)`,
  )
  for (let n = 1; n <= count; n++) {
    const text = `Line ${n}. ${'More of it. '.repeat((n * 7) % 11)}`
    insert.run(session.id, last + n, n, session.active_at, JSON.stringify({ block: `long-${n}`, text }))
  }
  database.prepare('update session set last_seq = ? where id = ?').run(last + count, session.id)
  database.exec('commit')
  database.close()
  await it.up()

  const { page, context, wrong, go } = await loggedIn(browser, 'phone', it)
  await go(`/sessions/${session.id}`)
  await page.getByText(`Line ${count}.`).waitFor()
  const log = page.getByRole('region', { name: 'Conversation' })
  const walked = await log.evaluate(async (view) => {
    const frame = () => new Promise((resolve) => requestAnimationFrame(resolve))
    const rows = () => [...view.querySelectorAll<HTMLElement>('[data-row-key]')]
    const numberOf = (row: Element) => Number(/long-(\d+)$/.exec(row.getAttribute('data-row-key') ?? '')?.[1])
    const topOf = (row: Element) => row.getBoundingClientRect().top
    const edge = topOf(view)
    let most = 0
    const jumps: string[] = []
    for (let lowest = Infinity; lowest > 100_000 - 4000;) {
      const held = rows().find((row) => topOf(row) >= edge)
      if (held === undefined) return { jumps: ['there was nothing to see'], most, lowest }
      const key = held.dataset['rowKey']
      const before = topOf(held)
      const from = view.scrollTop
      view.scrollBy(0, -550)
      const moved = from - view.scrollTop
      for (let wait = 0; wait < 3; wait++) await frame()
      const now = rows().find((row) => row.dataset['rowKey'] === key)
      if (now === undefined || Math.abs(topOf(now) - before - moved) > 2)
        jumps.push(`${key} went ${now === undefined ? 'away' : topOf(now) - before} instead of ${moved}`)
      most = Math.max(most, rows().length)
      lowest = Math.min(lowest, ...rows().map(numberOf))
    }
    return { jumps, most, lowest: 0 }
  })
  expect(walked.jumps).toEqual([])
  // Only what is seen is in the page, however much was read.
  expect(walked.most).toBeLessThan(120)
  expect(wrong).toEqual([])
  await context.close()
}, 240_000)
