import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect } from 'vitest'
import { testIn } from './browser.ts'
import { until } from '../e2e/installation.ts'

const test = testIn()

describe.each(['phone', 'desktop'] as const)('settings on a %s', (device) => {
  test('providers, secrets, walls, people and budgets', async ({ it, enter }) => {
    const { page, go, look, wrong } = await enter(device)
    const button = (name: string | RegExp) =>
      page.getByRole('button', { name, ...(typeof name === 'string' ? { exact: true } : {}) })
    await page.getByRole('link', { name: 'Settings', exact: true }).click()
    await page.getByRole('link', { name: /Providers and keys/ }).waitFor()
    await look(`${device}-settings`)

    await page.getByRole('link', { name: /Providers and keys/ }).click()
    await page.getByText('In use').waitFor()
    await button('Add a provider').click()
    await page.getByLabel(/^Kind/).selectOption('local')
    await page.getByRole('textbox', { name: /^Address/ }).fill('http://127.0.0.1:9')
    await page.getByLabel(/^Key/).fill('sk-secret-of-the-test')
    await button('Test and save').click()
    await page.getByText(/Nothing was stored/).waitFor()
    await button('Save without testing').click()
    await button('Replace the key…').waitFor()
    await page.getByLabel(/^Key/).waitFor({ state: 'detached' })
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

    await go('/settings/secrets')
    const secret = `token-of-${device}`
    await button('Add a secret').click()
    await page.getByRole('textbox', { name: /^Name/ }).fill(secret)
    await page.getByLabel(/^Secret/).fill('gh-secret-of-the-test')
    await button('Store it').click()
    const stored = page.getByRole('region', { name: secret })
    await stored.getByText('gh-…st').waitFor()
    await button('Store it').waitFor({ state: 'detached' })
    await stored.getByText('No host uses it yet').waitFor()
    expect(await page.content()).not.toContain('gh-secret-of-the-test')
    await look(`${device}-secrets`)
    writeFileSync(
      join(it.state, 'config/credentials.yaml'),
      `credentials:\n  - { host: api.github.com, header: Authorization, secret: ${secret}, env: GH_TOKEN }\n`,
    )
    await go('/settings/secrets')
    await stored.getByText('api.github.com').waitFor()
    // What calls still name is not forgotten.
    await stored.getByRole('button', { name: 'Remove…' }).click()
    await button('Delete it').click()
    await stored.getByText(/a credential for "api.github.com" names it/).waitFor()
    rmSync(join(it.state, 'config/credentials.yaml'))
    await stored.getByRole('button', { name: 'Remove…' }).click()
    await button('Delete it').click()
    await stored.waitFor({ state: 'detached' })

    await go('/settings/rungs')
    await page.getByText('(default)').waitFor()
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
    await anna.getByText(/Sees what is shared/).waitFor()
    await look(`${device}-people`)
    const { id } = await it.api.createSession({ body: { name: `Shown on a ${device}` } })
    await anna.getByRole('button', { name: 'Share a session…' }).click()
    await page.getByLabel(/^Session/).selectOption(id)
    await button('Share').click()
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    expect((await it.api.listShares({ params: { id } })).shares).toMatchObject([{ name, access: 'view' }])
    // It is taken back where it is.
    await go(`/sessions/${id}`)
    await button('Session').click()
    await page.getByRole('menuitem', { name: 'Share…' }).click()
    await button(`Remove ${name}`).waitFor()
    await look(`${device}-share`)
    await button(`Remove ${name}`).click()
    await page.getByText('Nobody but owner').waitFor()
    expect((await it.api.listShares({ params: { id } })).shares).toEqual([])
    await page.getByLabel(/^With/).selectOption(name)
    await button('Share').click()
    await button(`Remove ${name}`).waitFor()
    expect((await it.api.listShares({ params: { id } })).shares).toMatchObject([{ name, access: 'view' }])
    await go('/settings/people')
    await anna.getByRole('button', { name: 'Remove…' }).click()
    await button('Remove').click()
    await anna.waitFor({ state: 'detached' })

    await go('/settings/budgets')
    await button('Change The whole house, each day (utc)').click()
    await page.getByRole('textbox', { name: /^Budget/ }).fill('12.50')
    await button('Save').click()
    await page.getByText('of $12.50').first().waitFor()
    await look(`${device}-budgets`)
    await it.api.setBudget({ body: { node: 'owner', per: 'day', budget_micros: null } })
    expect(wrong).toEqual([])
  }, 240_000)

  test('the policy file is written with its comments, checked while it is typed, tried on what happened and then in force', async ({
    it,
    enter,
  }) => {
    const before = await it.api.readPolicyFile({ query: {} })
    await it.run('run echo from the past', { name: `Past ${device}`, autonomy: 'full' })
    const { page, go, look, wrong } = await enter(device)
    const button = (name: string) => page.getByRole('button', { name, exact: true })
    await go('/settings/policy')
    const example = page.getByText('The grey text below is only an example')
    await example.waitFor()
    expect(await example.innerText()).toMatch(/^(There is no policy file|This file is empty): the defaults are in force\./)
    const text = page.getByRole('textbox', { name: 'Text of the policy' })
    await text.fill('# mine\ndefault_autonomy: fulll\n')
    await page.getByText(/^Line 2, column 19/).waitFor()
    expect(await button('Try it on the last 30 days').isDisabled()).toBe(true)
    await look(`${device}-policy-wrong`)
    const mine = `# mine, on a ${device}\nrules:\n  - { on: tool, match: { tool: Bash, command: echo * }, effect: deny } # no echoes\n`
    await text.fill(mine)
    await page.getByRole('textbox', { name: 'Exactly' }).fill('echo hello')
    await page.getByText('which is not in force yet').waitFor()
    await button('Explain').click()
    await page.getByText('Denied', { exact: true }).waitFor()
    await button('Try it on the last 30 days').click()
    await page.getByText(/it would have denied/).waitFor()
    expect(await page.getByRole('status').filter({ hasText: 'would have denied' }).innerText()).toContain('echo from the past')
    await look(`${device}-policy`)
    await button('Save and apply').click()
    await page.getByRole('region', { name: 'In force' }).getByText('policy.yaml:3').waitFor()
    await example.waitFor({ state: 'detached' })
    expect(readFileSync(join(it.state, 'config/policy.yaml'), 'utf8')).toBe(mine)

    // Somebody else writes it while it is being changed here: theirs is not lost.
    await text.fill(`${mine}# more\n`)
    writeFileSync(join(it.state, 'config/policy.yaml'), before.text)
    await button('Try it on the last 30 days').click()
    await button('Save and apply').click()
    await page.getByText(/changed since it was read/).waitFor()
    expect(readFileSync(join(it.state, 'config/policy.yaml'), 'utf8')).toBe(before.text)
    expect(wrong).toEqual([])
  }, 120_000)

  test('the audit says what was asked, what left and what it cost, and gives the logs away to be verified', async ({
    it,
    enter,
  }) => {
    const { session } = await it.run('run echo audited', { name: `Audited on a ${device}` })
    const { page, go, look, wrong } = await enter(device)
    await go('/audit')
    await page.getByRole('list', { name: /^Entries/ }).waitFor()
    await look(`${device}-audit`)
    await page.getByLabel(/^Session/).selectOption(session.id)
    await page.getByRole('region', { name: 'What left' }).getByText('Nothing went over the network in that time').waitFor()
    await page.getByLabel(/^Kind/).selectOption('secret')
    await page
      .getByText(/credential of rehearsal used/)
      .first()
      .waitFor()
    expect(await page.getByText(/^created:/).count()).toBe(0)
    await look(`${device}-audit-session`)
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'Export this session' }).click(),
    ])
    const file = join(it.state, `export-${device}.jsonl`)
    await download.saveAs(file)
    expect(await it.cli(['verify', file])).toMatchObject({ code: 0 })
    await page.getByLabel(/^Session/).selectOption('')
    await page.getByLabel(/^Kind/).selectOption('house')
    await page
      .getByText(/^login of owner/)
      .first()
      .waitFor()
    expect(wrong).toEqual([])
  }, 120_000)
})

test('the first screen loads from this house alone, waits for no script, logs no error, and comes back without a network', async ({
  it,
  enter,
}) => {
  const { page, go, wrong, context } = await enter('phone')
  await it.api.createSession({ body: { name: 'Last known' } })
  await go('/')
  await page.getByText('Last known').first().waitFor()
  const { blocking, largestMs } = await page.evaluate(async () => ({
    blocking: performance
      .getEntriesByType('resource')
      .filter((entry) => (entry as { renderBlockingStatus?: string }).renderBlockingStatus === 'blocking')
      .map(({ name }) => new URL(name))
      .filter(({ origin, pathname }) => origin !== location.origin || !pathname.endsWith('.css'))
      .map(String),
    largestMs: await new Promise<number>((resolve) => {
      new PerformanceObserver((list) => resolve(list.getEntries().at(-1)?.startTime ?? 0)).observe({
        type: 'largest-contentful-paint',
        buffered: true,
      })
    }),
  }))
  console.log(`largest contentful paint: ${Math.round(largestMs)} ms`)
  expect(blocking).toEqual([])
  await page.evaluate(() => navigator.serviceWorker.ready.then(() => null))
  await until(() => page.evaluate(() => localStorage.getItem('anchorhold.sessions')?.includes('Last known') ?? false))
  expect(wrong).toEqual([])
  await context.setOffline(true)
  await page.reload()
  await page.getByText('Last known').first().waitFor()
  // Its settings open too, and say that nobody answers.
  await page.getByRole('link', { name: 'Settings', exact: true }).click()
  await page.getByRole('link', { name: /Budgets/ }).click()
  await page.getByText(/The daemon does not answer/).waitFor()
}, 120_000)
