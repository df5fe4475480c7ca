import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { devices, loggedIn, openBrowser, openTab } from './browser.ts'
import { type Installation, installation, root } from '../e2e/installation.ts'

let browser: Browser
beforeAll(async () => {
  browser = await openBrowser()
})
afterAll(() => browser.close())

describe.each(['phone', 'desktop'] as const)('on a %s', (device) => {
  let it: Installation
  beforeAll(async () => {
    it = await installation()
  })
  afterAll(() => it[Symbol.asyncDispose]())

  test('first start, login link, new session, streaming, an answer by tap, stop, archive, and search finds it', async () => {
    const context = await browser.newContext(devices[device])
    const { page, go, look, wrong } = await openTab(context, it)
    const phone = device === 'phone'
    const tap = (name: string | RegExp, role: 'button' | 'link' | 'menuitem' | 'radio' = 'button') =>
      page
        .getByRole(role, { name, ...(typeof name === 'string' ? { exact: true } : {}) })
        .first()
        .click()
    const said = (text: string | RegExp) => page.getByText(text).first().waitFor()

    await go('/')
    await said('This device is not logged in')
    await look(`${device}-login`)

    const { url } = await it.api.createLoginLink()
    await page.getByRole('textbox', { name: /paste it/ }).fill(url)
    await tap('Log in')
    await said('No sessions yet')
    expect(page.url()).not.toContain('login=')
    await look(`${device}-empty`)

    for (const [name, text] of [
      ['Update dependencies', 'say all up to date'],
      ['Write the release notes', 'create notes.md saying soon, then say done'],
    ] as const)
      await it.api.createSession({ body: { name, prompt: { text }, budget_micros: 5_000_000 } })

    await go('/new')
    await look(`${device}-new`)
    await page.getByText('Options').click()
    await page.getByLabel('Budget').fill('2')
    await page
      .getByRole('textbox', { name: 'Prompt' })
      .fill(
        'think about names then create notes.md saying first ideas, then edit notes.md replacing first with better, then run cat notes.md, then ask me whether to use tabs or spaces',
      )
    await tap('Start')
    await page.waitForURL(/\/sessions\/ses_/)
    await tap(/tabs/, 'radio')
    await look(`${device}-question`)
    await tap('Answer')
    await said('Answered')
    await said('Done')
    await tap(/^Edited/)
    await said('better ideas')
    await look(`${device}-session`)

    // What streams is seen before it is whole, and a tap ends it.
    await page.getByRole('textbox', { name: 'Prompt' }).fill('count slowly to 500')
    await tap('Send')
    await page
      .getByRole('log')
      .getByText(/\b12\b/)
      .first()
      .waitFor()
    await look(`${device}-streaming`)
    await tap('Stop the turn')
    await said('Stopped')
    expect(await page.getByRole('log').getByText('499').count()).toBe(0)

    // The inbox, by another session's question.
    await it.api.createSession({ body: { name: 'Second opinion', prompt: { text: 'ask me whether to go left or right' } } })
    if (phone) await tap('All sessions', 'link')
    await page.getByRole('region', { name: 'Needs you' }).waitFor()
    await look(`${device}-sessions`)
    await tap(/^Inbox/, 'link')
    await said('Shall I')
    await look(`${device}-inbox`)
    await tap(/left/, 'radio')
    await tap('Answer')
    await said('Nothing waits for you')

    await go('/usage')
    await said('By model')
    await look(`${device}-usage`)

    await go('/')
    await page
      .getByRole('link', { name: /think about names/ })
      .first()
      .click()
    await tap('Session')
    await tap('Archive…', 'menuitem')
    await look(`${device}-archive`)
    await tap('Archive')
    await page.waitForURL((to) => to.pathname === '/')
    await page.getByRole('link', { name: /think about names/ }).waitFor({ state: 'detached' })
    await tap('Archived')
    await page.getByRole('link', { name: /think about names/ }).waitFor()
    await page.getByRole('searchbox').fill('better')
    await page.locator('mark', { hasText: 'better' }).first().waitFor()
    await look(`${device}-search`)
    await page.locator('mark', { hasText: 'better' }).first().click()
    await page.waitForURL(/at=\d+/)
    await said('Archived: read-only')

    expect(wrong).toEqual([])
    await context.close()
  }, 180_000)

  test('what must be asked for is shown in its exact words, and allowed for a session, denied with a reason or put off', async () => {
    const { page, go, look, wrong, context } = await loggedIn(browser, device, it)
    const ask = (name: string, text: string) => it.api.createSession({ body: { name, autonomy: 'restricted', prompt: { text } } })
    const { id } = await ask('Wants to run', 'run echo one, then run echo one')
    await go('/inbox')
    const card = page.getByRole('article')
    await card.getByText('The agent wants to run').waitFor()
    expect(await card.getByText('echo one', { exact: true }).count()).toBe(1)
    await card.getByText('Allow more than once').click()
    await look(`${device}-request`)
    await card.getByRole('button', { name: /in this session$/ }).click()
    await page.getByText('Nothing waits for you').waitFor()
    await it.event(id, 0, ({ type }) => type === 'turn.ended')

    const { id: second } = await ask('Wants more', 'run echo two')
    await card.getByRole('button', { name: 'Not now' }).click()
    await card.getByText('Put off').waitFor()
    await card.getByRole('button', { name: 'Deny…' }).click()
    await card.getByRole('textbox').fill('not today')
    await card.getByRole('button', { name: 'Deny', exact: true }).click()
    await page.getByText('Nothing waits for you').waitFor()
    const answers = (await it.log(second)).flatMap((event) => (event.type === 'request.answered' ? [event.body.answer] : []))
    expect(answers).toMatchObject([{ decision: 'deny', reason: 'not today' }])
    expect(wrong).toEqual([])
    await context.close()
  }, 120_000)

  test('the panic button stops every agent after one more question', async () => {
    const { id } = await it.api.createSession({ body: { prompt: { text: 'count slowly to 500' } } })
    await it.event(id, 0, ({ type }) => type === 'turn.started')
    const context = await browser.newContext(devices[device])
    const { page, go, wrong } = await openTab(context, it)
    await go(`/${new URL((await it.api.createLoginLink()).url).hash}`)
    await page.getByRole('button', { name: 'House' }).click()
    await page.getByRole('menuitem', { name: /Stop every agent/ }).click()
    expect((await it.api.getSession({ params: { id } })).state).toBe('working')
    await page.getByRole('button', { name: 'Stop everything' }).click()
    await page.getByText(/^Stopped: /).waitFor()
    expect((await it.api.getSession({ params: { id } })).state).toBe('stopped')
    expect(wrong).toEqual([])
    await context.close()
  })
})

test('what the first screen loads is at most 250 kB of JavaScript, compressed', () => {
  const web = join(root, 'dist/web')
  type Chunk = { readonly file: string; readonly isEntry?: boolean; readonly imports?: readonly string[] }
  const manifest = JSON.parse(readFileSync(join(web, '.vite/manifest.json'), 'utf8')) as Record<string, Chunk>
  const reached = (name: string): string[] => [name, ...(manifest[name]?.imports ?? []).flatMap(reached)]
  const sizeOf = (names: readonly string[]) =>
    [...new Set(names)].reduce((sum, name) => sum + gzipSync(readFileSync(join(web, manifest[name]!.file))).length, 0)
  const first = reached('index.html')
  expect(sizeOf(first)).toBeLessThanOrEqual(250_000)
  // Also with the screen of a session, which is where most people go next.
  expect(sizeOf([...first, ...reached('src/session/SessionPage.tsx')])).toBeLessThanOrEqual(250_000)
  expect(readdirSync(web).filter((name) => name.endsWith('.map'))).toEqual([])
})
