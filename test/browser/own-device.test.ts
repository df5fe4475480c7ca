import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { loggedIn, openBrowser } from './browser.ts'
import { type Installation, installation, until } from '../e2e/installation.ts'

let it: Installation
let browser: Browser
beforeAll(async () => {
  ;[it, browser] = await Promise.all([installation(), openBrowser()])
})
afterAll(async () => {
  await browser.close()
  await it[Symbol.asyncDispose]()
})

test('each screen has a name, takes the focus, and can be left in a colour of its own; tokens are shown once and all are revoked', async () => {
  const { page, go, look, lookTwice, wrong, context } = await loggedIn(browser, 'desktop', it)
  const button = (name: string) => page.getByRole('button', { name, exact: true })
  const { session } = await it.run('say hello', { name: 'Named' })
  await go('/settings')
  await until(async () => (await page.title()).endsWith('Settings · Anchorhold'))
  await page.getByRole('link', { name: 'Usage', exact: true }).click()
  await until(async () => (await page.title()).endsWith('Usage · Anchorhold'))
  await until(() => page.evaluate(() => document.activeElement?.tagName === 'H1'))
  await page.keyboard.press('s')
  await page.getByRole('checkbox', { name: /Single letters/ }).uncheck()
  await button('Dark').click()
  expect(await page.evaluate(() => getComputedStyle(document.documentElement).colorScheme)).toBe('dark')
  await look('desktop-settings-dark')
  await page.getByRole('heading', { name: 'Settings' }).click()
  await page.keyboard.press('u')
  await page.keyboard.press('?')
  expect([new URL(page.url()).pathname, await page.getByRole('dialog').count()]).toEqual(['/settings', 0])
  await page.reload()
  expect(await page.evaluate(() => getComputedStyle(document.documentElement).colorScheme)).toBe('dark')
  await page.getByRole('checkbox', { name: /Single letters/ }).check()
  await button('As the system').click()
  await page.getByRole('heading', { name: 'Settings' }).click()
  await page.keyboard.press('?')
  await page.getByRole('dialog').getByText('Stop the turn').waitFor()
  await lookTwice('desktop-shortcuts')
  await page.keyboard.press('Escape')

  await go('/settings/account')
  await button('Make a token').click()
  await page.getByRole('textbox', { name: /^Name/ }).fill('A program')
  await button('Make it').click()
  const secret = await page.getByRole('dialog').locator('code').innerText()
  await lookTwice('desktop-token')
  await button('I have it').click()
  const enter = async () => (await it.raw('/api/v1/whoami', { headers: { authorization: `Bearer ${secret}` } })).status
  expect(await enter()).toBe(200)
  await page.getByRole('list', { name: 'Tokens' }).getByText('A program').waitFor()
  await button('Revoke all devices and tokens…').click()
  await button('Revoke all').click()
  await page.getByRole('list', { name: 'Tokens' }).getByText('A program').waitFor({ state: 'detached' })
  expect([await enter(), (await it.api.whoAmI()).user.name]).toEqual([401, 'owner'])

  await go(`/sessions/${session.id}`)
  await until(async () => (await page.title()) === 'Named · Anchorhold')
  for (const [entry, name] of [
    ['Rename…', 'rename'],
    ['Budget…', 'budget'],
    ['Stop every agent…', 'panic'],
  ] as const) {
    await button('Session').click()
    await page.getByRole('menuitem', { name: entry }).click()
    await page.getByRole('dialog').waitFor()
    await lookTwice(`desktop-${name}`)
    await button('Cancel').click()
  }
  expect(wrong).toEqual([])
  await context.close()
}, 300_000)
