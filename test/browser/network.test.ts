import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Installation, installation, until } from '../e2e/installation.ts'
import { devices, openBrowser } from './browser.ts'
import { type Proxy, proxyTo } from './proxy.ts'
import { showsAll } from './transcript.ts'

let it: Installation
let browser: Browser
let proxy: Proxy
let home: string
beforeAll(async () => {
  proxy = await proxyTo(() => Number(new URL(it.url).port))
  home = `http://localhost:${proxy.port}`
  ;[it, browser] = await Promise.all([installation({ samePort: true, config: `public_url: ${home}\n` }), openBrowser()])
})
afterAll(async () => {
  await browser.close()
  await proxy[Symbol.asyncDispose]()
  await it[Symbol.asyncDispose]()
})

async function openSession(prompt: string) {
  const context = await browser.newContext(devices.desktop)
  const page = await context.newPage()
  page.setDefaultTimeout(120_000)
  await page.goto((await it.api.createLoginLink()).url)
  await mark(page, 'Live')
  const { id } = await it.api.createSession({ body: { name: `Over ${prompt}`, prompt: { text: prompt } } })
  await page.goto(`${home}/sessions/${id}`)
  await heard(page, prompt.replace('say ', ''))
  // Its files are kept from here on.
  await page.evaluate(() => navigator.serviceWorker.ready.then(() => null))
  await until(() => page.evaluate(() => localStorage.getItem('anchorhold.sessions')?.includes('Over say') ?? false))
  return { context, page, id }
}
const mark = (page: Page, label: string) =>
  page.getByRole('status').filter({ hasText: label }).first().waitFor({ state: 'attached' })
const heard = (page: Page, text: string) => page.getByRole('log').getByText(text, { exact: true }).first().waitFor()
const say = async (page: Page, text: string) => {
  await page.getByRole('textbox', { name: 'Prompt' }).fill(text)
  await page.getByRole('button', { name: 'Send' }).click()
}
const promptsOf = async (id: Parameters<Installation['log']>[0]) =>
  (await it.log(id)).flatMap((event) => (event.type === 'prompt.queued' ? [event.body.text] : []))

test('behind a proxy whose daemon is gone a prompt is kept, the app opens, and all of it arrives once', async () => {
  const { context, page, id } = await openSession('say first')
  const { pid } = JSON.parse(readFileSync(join(it.state, 'daemon.json'), 'utf8')) as { pid: number }
  process.kill(pid, 'SIGKILL')
  await mark(page, 'Reconnecting')
  await say(page, 'say kept')
  await page.getByText(/Kept on this device/).waitFor()
  // The proxy answers for the daemon: its page of regret is not shown.
  expect((await fetch(`${home}/`)).status).toBe(502)
  await page.goto(`${home}/`)
  await page.getByText('Over say first').first().waitFor()
  await mark(page, 'Connecting')
  await it.up()
  await mark(page, 'Live')
  await page.goto(`${home}/sessions/${id}`)
  await heard(page, 'kept')
  expect(await promptsOf(id)).toEqual(['say first', 'say kept'])
  await context.close()
}, 300_000)

test('a network that swallows everything is told within seconds, and what was written meanwhile arrives once', async () => {
  const { context, page, id } = await openSession('say before')
  proxy.hole()
  await say(page, 'say swallowed')
  await it.api.changeSession({ params: { id }, body: { name: 'Changed meanwhile' } })
  await mark(page, 'Reconnecting')
  await say(page, 'say second')
  // A page that is opened now is the kept one.
  const other = await context.newPage()
  await other.goto(`${home}/`)
  await other.getByText('Over say before').first().waitFor()
  await other.close()
  proxy.pass()
  await mark(page, 'Live')
  await heard(page, 'second')
  await until(async () => (await it.api.getSession({ params: { id } })).state === 'ready')
  expect(await promptsOf(id)).toEqual(['say before', 'say swallowed', 'say second'])
  await until(() => page.evaluate(() => localStorage.getItem('anchorhold.outbox') ?? '[]').then((left) => left === '[]'))
  await showsAll(page, () => it.log(id))
  await context.close()
}, 300_000)
