import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { loggedIn, openBrowser } from './browser.ts'
import { type Installation, installation } from '../e2e/installation.ts'

let it: Installation
let browser: Browser
beforeAll(async () => {
  ;[it, browser] = await Promise.all([installation(), openBrowser()])
})
afterAll(async () => {
  await browser.close()
  await it[Symbol.asyncDispose]()
})

describe.each(['phone', 'desktop'] as const)('settings on a %s', (device) => {
  test('providers, walls, people and budgets', async () => {
    const { page, go, look, wrong, context } = await loggedIn(browser, device, it)
    const button = (name: string | RegExp) =>
      page.getByRole('button', { name, ...(typeof name === 'string' ? { exact: true } : {}) })
    await page.getByRole('link', { name: 'Settings', exact: true }).click()
    await page.getByRole('link', { name: /Providers and keys/ }).waitFor()
    await look(`${device}-settings`)

    await page.getByRole('link', { name: /Providers and keys/ }).click()
    await page.getByText('In use').waitFor()
    await button('Add a provider').click()
    await page.getByLabel('Kind').selectOption('local')
    await page.getByRole('textbox', { name: /^Address/ }).fill('http://127.0.0.1:9')
    await page.getByLabel(/^Key/).fill('sk-secret-of-the-test')
    await button('Try and store').click()
    await page.getByText(/Nothing was stored/).waitFor()
    await button('Store it untested').click()
    await button('Replace the key…').waitFor()
    // The key went one way: nothing that the page holds has it any more.
    expect(await page.content()).not.toContain('sk-secret-of-the-test')
    expect(JSON.stringify(await it.api.listProviders())).not.toContain('sk-secret-of-the-test')
    await button('Test').click()
    await page.getByText(/It cannot be reached/).waitFor()
    await look(`${device}-providers`)
    await page.getByRole('region', { name: 'rehearsal' }).getByRole('button', { name: 'Use' }).click()
    await page.getByRole('region', { name: 'rehearsal' }).getByText('In use').waitFor()
    await button('Remove…').click()
    await button('Remove').click()
    await button('Replace the key…').waitFor({ state: 'detached' })

    await go('/settings/rungs')
    await page.getByText('(the usual one)').waitFor()
    await look(`${device}-rungs`)

    await go('/settings/people')
    const name = `anna-${device}`
    await button('Add somebody').click()
    await page.getByRole('textbox', { name: /^Name/ }).fill(name)
    await button('Add').click()
    const anna = page.getByRole('region', { name })
    await anna.getByRole('button', { name: 'Invite' }).click()
    await anna.getByText(/#login=/).waitFor()
    await anna.getByLabel(/^Role/).selectOption('viewer')
    await anna.getByText(/Looks at what is shown/).waitFor()
    await look(`${device}-people`)
    const { id } = await it.api.createSession({ body: { name: `Shown on a ${device}` } })
    await anna.getByRole('button', { name: 'Share a session…' }).click()
    await page.getByLabel('Session').selectOption(id)
    await button('Share').click()
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    expect((await it.api.listShares({ params: { id } })).shares).toMatchObject([{ name, access: 'view' }])
    await anna.getByRole('button', { name: 'Remove…' }).click()
    await button('Remove').click()
    await anna.waitFor({ state: 'detached' })

    await go('/settings/budgets')
    await button('Change The whole house, each day (utc)').click()
    await page.getByRole('textbox', { name: /^It may spend/ }).fill('12.50')
    await button('Save').click()
    await page.getByText('of $12.50').first().waitFor()
    await look(`${device}-budgets`)
    await it.api.setBudget({ body: { node: 'owner', per: 'day', budget_micros: null } })
    expect(wrong).toEqual([])
    await context.close()
  }, 120_000)
})
