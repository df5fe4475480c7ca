import { expect } from 'vitest'
import { until } from '../e2e/installation.ts'
import { devices, testIn } from './browser.ts'

const test = testIn()

test('a part of the app that does not load says so where it should be, and takes nothing else along', async ({ it, browser }) => {
  const home = `http://localhost:${new URL(it.url).port}`
  const context = await browser.newContext({ ...devices.desktop, serviceWorkers: 'block' })
  const page = await context.newPage()
  page.setDefaultTimeout(120_000)
  const asked: string[] = []
  page.on('request', (request) => void asked.push(new URL(request.url()).pathname + new URL(request.url()).search))
  await page.route(/assets\/CostTab-/, (route) => route.abort())
  await page.goto(`${home}/${new URL((await it.api.createLoginLink()).url).hash}`)
  await page.getByRole('status').filter({ hasText: 'Live' }).first().waitFor({ state: 'attached' })
  const { id } = await it.api.createSession({ body: { name: 'Half a page', prompt: { text: 'say whole' } } })
  asked.length = 0
  await page.goto(`${home}/sessions/${id}`)
  await page.getByRole('log').getByText('whole', { exact: true }).first().waitFor()
  // The newest page was asked for along with the document, and what came then is what is shown.
  expect(asked.filter((path) => path.startsWith(`/api/v1/sessions/${id}/events?before=`))).toHaveLength(1)
  await page.getByRole('link', { name: 'Cost', exact: true }).click()
  await page.getByRole('alert').getByText('This could not be shown').waitFor()
  await page.getByRole('button', { name: 'Reload' }).waitFor()
  await page.getByRole('link', { name: 'Chat', exact: true }).click()
  await page.getByRole('log').getByText('whole', { exact: true }).first().waitFor()
  await context.close()
}, 300_000)

test('a device that was sent away forgets what it saw, and keeps what was written for whoever wrote it', async ({
  it,
  enter,
}) => {
  const { page, go } = await enter('desktop')
  const { id } = await it.api.createSession({ body: { name: 'Not for everybody' } })
  await go(`/sessions/${id}`)
  await page.getByRole('textbox', { name: 'Prompt' }).fill('half a thought')
  await until(() => page.evaluate(() => localStorage.getItem('anchorhold.sessions')?.includes('Not for everybody') ?? false))
  const { tokens } = await it.api.listTokens()
  for (const { id: token, kind } of tokens) if (kind === 'login') await it.api.revokeToken({ params: { id: token } })
  await page.getByRole('heading', { name: 'Anchorhold', level: 1 }).waitFor()
  const kept = await page.evaluate(() => JSON.stringify(Object.entries(localStorage)))
  expect(kept).not.toContain('Not for everybody')
  expect(kept).toContain('half a thought')
  // Somebody else logs in on it.
  await it.api.addUser({ body: { name: 'bob', role: 'member' } })
  const { url } = await it.api.inviteUser({ params: { name: 'bob' } })
  await page.goto('about:blank')
  await go(`/${new URL(url).hash}`)
  await page.getByRole('status').filter({ hasText: 'Live' }).first().waitFor({ state: 'attached' })
  expect(await page.evaluate((place) => localStorage.getItem(place), `anchorhold.draft.${id}`)).toBeNull()
}, 300_000)
