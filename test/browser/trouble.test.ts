import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, expect } from 'vitest'
import { testIn } from './browser.ts'

/** A provider that knows nobody. */
const provider = createServer((_, response) => {
  response.writeHead(401, { 'content-type': 'application/json' })
  response.end('{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}')
}).listen(0, '127.0.0.1')
await once(provider, 'listening')
afterAll(() => void provider.close())

const test = testIn({ config: 'disk_low_gib: 1000000\n' })

test('a credential that is refused, a disk that is nearly full and limits that do not hold are told, with the way to mend them', async ({
  it,
  enter,
}) => {
  const { page, go, lookTwice, wrong } = await enter('phone')
  const trouble = page.getByRole('region', { name: 'Trouble' })
  await trouble.getByText(/The disk is nearly full/).waitFor()
  await trouble.getByText('anchorhold doctor --disk').waitFor()

  // No wall, and limits that nobody holds there: both are said above the conversation, and the first is red.
  const bare = await it.api.createSession({ body: { name: 'Bare', rung: 'none', prompt: { text: 'say hello' } } })
  await it.event(bare.id, 0, ({ type }) => type === 'turn.ended')
  await go(`/sessions/${bare.id}`)
  await page.getByText(/^Not enforced here: tmp/).waitFor()
  await page.getByText('No wall', { exact: true }).first().waitFor()
  await lookTwice('phone-bare')

  const { port } = provider.address() as AddressInfo
  await go('/settings/providers')
  const button = (name: string) => page.getByRole('button', { name, exact: true })
  await button('Add a provider').click()
  await page.getByLabel(/^Kind/).selectOption('local')
  await page.getByRole('textbox', { name: /^Address/ }).fill(`http://127.0.0.1:${port}`)
  await page.getByLabel(/^Key/).fill('sk-expired')
  await button('Test and save').click()
  await page.getByText(/Nothing was stored/).waitFor()
  await button('Save without testing').click()
  await button('Replace the key…').waitFor()
  const { id } = await it.api.createSession({ body: { name: 'Refused', prompt: { text: 'say hello' } } })
  await it.event(id, 0, ({ type }) => type === 'turn.ended')
  await go(`/sessions/${id}`)
  await page.getByText('Ended by an error').first().waitFor()
  const refused = trouble.locator('div').filter({ hasText: /refuses its credential/ })
  await refused.getByRole('alert').waitFor()
  await lookTwice('phone-refused')
  await refused.getByRole('link', { name: 'Fix it' }).click()
  await page.waitForURL((url) => url.pathname === '/settings/providers')
  await button('Replace the key…').waitFor()
  expect(wrong).toEqual([])
}, 180_000)
