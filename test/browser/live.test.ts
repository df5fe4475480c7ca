import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { expect } from 'vitest'
import { openTab, testIn } from './browser.ts'
import { disconnectsRun, figures } from './disconnects.ts'
import { showsAll } from './transcript.ts'
import { until } from '../e2e/installation.ts'

const test = testIn({ samePort: true })

test('twelve random disconnects of two sessions with two tabs each: nothing is lost, twice or out of order', async ({
  it,
  browser,
}) => {
  console.log(figures(await disconnectsRun({ browser, it }, { seed: 7, rounds: 6, lanes: 2 })))
}, 300_000)

test('two tabs, a network that goes and comes, a daemon that is killed: nothing is lost, twice or out of order', async ({
  it,
  enter,
}) => {
  const { page: one, context, wrong } = await enter('desktop')
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
    await showsAll(page, () => it.log(id))
    await until(() => page.evaluate(() => localStorage.getItem('anchorhold.outbox') === '[]'))
  }
  expect(wrong.filter((what) => !/ERR_|Failed to fetch/.test(what))).toEqual([])
}, 240_000)

test('on a phone a daemon that is started again and a night of sleep need no reload: the mark says how it stands, and all is there', async ({
  it,
  enter,
}) => {
  const { page, context, go } = await enter('phone')
  const { id } = await it.api.createSession({ body: { name: 'Nightly' } })
  await go(`/sessions/${id}`)
  const mark = (label: string) => page.getByRole('status').filter({ hasText: label }).first().waitFor({ state: 'attached' })
  await mark('Live')
  await page.evaluate(() => Object.assign(globalThis, { sameDocument: true }))
  const rename = (name: string) => it.api.changeSession({ params: { id }, body: { name } })
  const seen = (name: string) => page.getByText(`Renamed to “${name}”`).first().waitFor()

  const { pid } = JSON.parse(readFileSync(join(it.state, 'daemon.json'), 'utf8')) as { pid: number }
  process.kill(pid, 'SIGKILL')
  await mark('Reconnecting')
  await it.up()
  await rename('After the restart')
  await seen('After the restart')
  await mark('Live')

  const protocol = await context.newCDPSession(page)
  await protocol.send('Page.setWebLifecycleState', { state: 'frozen' })
  await context.setOffline(true)
  await rename('While it slept')
  await context.setOffline(false)
  await protocol.send('Page.setWebLifecycleState', { state: 'active' })
  await seen('While it slept')
  await mark('Live')
  await context.setOffline(true)
  await mark('Offline')
  await context.setOffline(false)
  await mark('Live')
  expect(await page.evaluate(() => 'sameDocument' in globalThis)).toBe(true)
  await showsAll(page, () => it.log(id))
}, 120_000)

test('without a network the app opens with the last known list, and comes back by itself', async ({ it, enter }) => {
  const { page, context } = await enter('phone')
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
}, 120_000)

test('a browser with more tabs than it has connections opens each, and follows the one that is looked at', async ({
  it,
  enter,
}) => {
  const { page: first, context, wrong } = await enter('desktop')
  const home = `http://localhost:${new URL(it.url).port}`
  const see = (page: Page, state: 'visible' | 'hidden') =>
    page.evaluate((state) => {
      Object.defineProperty(document, 'visibilityState', { configurable: true, get: () => state })
      document.dispatchEvent(new Event('visibilitychange'))
    }, state)
  await first.goto(home)
  await first.getByRole('searchbox').first().waitFor()
  // A browser without a window looks at all of its tabs.
  for (let tab = 0; tab < 7; tab++) {
    const { page } = await openTab(context, it)
    await see(context.pages().at(-2)!, 'hidden')
    await page.goto(home)
    await page.getByRole('searchbox').first().waitFor()
  }
  const { name } = await it.api.createSession({ body: { name: 'Behind the tabs' } })
  await context.pages().at(-1)!.getByText(name).first().waitFor()
  await see(context.pages().at(-1)!, 'hidden')
  await see(first, 'visible')
  await first.getByText(name).first().waitFor()
  expect(wrong).toEqual([])
}, 300_000)
