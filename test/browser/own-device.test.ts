import { expect } from 'vitest'
import { testIn } from './browser.ts'
import { until } from '../e2e/installation.ts'

const test = testIn()

test('each screen has a name, takes the focus, and can be left in a colour of its own; tokens are shown once and all are revoked', async ({
  it,
  enter,
}) => {
  const { page, go, look, lookTwice, wrong } = await enter('desktop')
  const button = (name: string) => page.getByRole('button', { name, exact: true })
  const { session } = await it.run('say hello', { name: 'Named' })
  await go('/settings')
  await until(async () => (await page.title()).endsWith('Settings · Anchorhold'))
  await page.getByRole('link', { name: 'Usage', exact: true }).click()
  await until(async () => (await page.title()).endsWith('Usage · Anchorhold'))
  await until(() => page.evaluate(() => document.activeElement?.tagName === 'H1'))
  await page.keyboard.press('s')
  await page.getByRole('checkbox', { name: /Single letters/ }).uncheck()
  const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor)
  const [light, dark] = ['rgb(250, 249, 247)', 'rgb(19, 17, 16)']
  await button('Dark').click()
  expect(await ground()).toBe(dark)
  await look('desktop-settings-dark')
  await page.getByRole('heading', { name: 'Settings' }).click()
  await page.keyboard.press('u')
  await page.keyboard.press('?')
  expect([new URL(page.url()).pathname, await page.getByRole('dialog').count()]).toEqual(['/settings', 0])
  await page.reload()
  expect(await ground()).toBe(dark)
  await page.emulateMedia({ colorScheme: 'dark' })
  await button('Light').click()
  expect(await ground()).toBe(light)
  await page.emulateMedia({ colorScheme: 'light' })
  await page.getByRole('checkbox', { name: /Single letters/ }).check()
  await button('Match the system').click()
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
  await button('I have saved it').click()
  const seen = async () => (await it.raw('/api/v1/whoami', { headers: { authorization: `Bearer ${secret}` } })).status
  expect(await seen()).toBe(200)
  await page.getByRole('list', { name: 'Tokens' }).getByText('A program').waitFor()
  await button('Revoke all devices and tokens…').click()
  await button('Revoke all').click()
  await page.getByRole('list', { name: 'Tokens' }).getByText('A program').waitFor({ state: 'detached' })
  expect([await seen(), (await it.api.whoAmI()).user.name]).toEqual([401, 'owner'])

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
}, 300_000)
