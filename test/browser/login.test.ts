import { stepAt, totp } from '@anchorhold/daemon/logins/totp'
import Database from 'better-sqlite3'
import { join } from 'node:path'
import { expect } from 'vitest'

import { devices, openTab, testIn, withAuthenticator } from './browser.ts'

const password = 'correct horse battery'
const test = testIn({
  policy: "rules: [{ on: tool, match: { command: 'echo dangerous' }, effect: ask, step_up: true }]\n",
})

function bytesOfBase32(text: string): Uint8Array {
  const letters = text.replaceAll(/\s/g, '').split('')
  const bits = letters.map((letter) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(letter).toString(2).padStart(5, '0'))
  return Uint8Array.from(bits.join('').match(/.{8}/g) ?? [], (byte) => Number.parseInt(byte, 2))
}

/** As if the logins' proofs had been shown long ago. */
function growOld(state: string): void {
  const db = new Database(join(state, 'anchorhold.db'))
  db.prepare('update token set proved_at = 1 where proved_at is not null').run()
  db.close()
}

test('passkey, password, code and recovery code: set up, and each of them leads in', async ({ it, enter }) => {
  const { page, go, look, wrong, context } = await enter('phone')
  await withAuthenticator(context, page)
  const tap = (name: string | RegExp, role: 'button' | 'menuitem' = 'button') =>
    page.getByRole(role, { name, ...(typeof name === 'string' ? { exact: true } : {}) }).click()
  const panel = (name: string) => page.getByRole('region', { name })

  await go('/settings/account')
  await panel('Devices').getByText('This one').waitFor()
  await tap('Add a passkey')
  await panel('Passkeys')
    .getByText(/^localhost/)
    .waitFor()
  await panel('Password').locator('input[type=password]').fill(password)
  await tap('Set the password')
  await page.getByText('It is set.').waitFor()
  await look('phone-account')

  await tap('Set it up')
  await page.getByRole('img', { name: 'The key as a QR code' }).waitFor()
  await panel('Authenticator').scrollIntoViewIfNeeded()
  await look('phone-authenticator')
  const secret = bytesOfBase32((await panel('Authenticator').locator('code').textContent()) ?? '')
  expect(secret).toHaveLength(20)
  const code = totp(secret, stepAt(Date.now()))
  await page.getByLabel('The code that it shows now').fill(code)
  await tap('Switch it on')
  await panel('Authenticator').getByRole('listitem').nth(9).waitFor()
  const recovery = await panel('Authenticator').getByRole('listitem').allTextContents()
  expect(recovery).toHaveLength(10)
  await look('phone-recovery-codes')
  await tap('I have saved them')

  const leave = async () => {
    await go('/')
    await tap('House')
    await tap('Log out', 'menuitem')
    await page.getByText('This device is not logged in').waitFor()
  }
  const live = () => page.getByRole('status').filter({ hasText: 'Live' }).first().waitFor({ state: 'attached' })
  await leave()
  await page.getByRole('button', { name: 'Use a passkey' }).waitFor()
  await look('phone-login-ways')
  await tap('Use a passkey')
  await live()

  await leave()
  await page.getByLabel('Password', { exact: true }).fill('not this one')
  await tap('Log in with the password')
  await page.getByRole('alert').filter({ hasText: 'the name or the password is wrong' }).waitFor()
  await page.getByLabel('Password', { exact: true }).fill(password)
  await tap('Log in with the password')
  await page.getByLabel('Code, or a recovery code').fill(code)
  await look('phone-code')
  await tap('Log in')
  await page.getByRole('alert').filter({ hasText: 'used already' }).waitFor()
  await page.getByLabel('Code, or a recovery code').fill(recovery[0]!)
  await tap('Log in')
  await live()
  await go('/settings/account')
  await page.getByText('Recovery codes left: 9').waitFor()

  const { events } = await it.api.houseEvents({ query: { limit: 100 } })
  const ways = events.flatMap((event) => (event.type === 'login' ? [event.body.how] : []))
  expect(ways).toEqual(['link', 'passkey', 'code'])
  expect(events.filter(({ type }) => type === 'login.failed')).toHaveLength(2)
  expect(wrong).toEqual([])

  // What is dangerous waits for the passkey, and then goes on by itself.
  const { id } = await it.api.createSession({ body: { name: 'Wants to deploy', prompt: { text: 'run echo dangerous' } } })
  growOld(it.state)
  await go('/inbox')
  const card = page.getByRole('article')
  await card.getByRole('button', { name: 'Allow once' }).click()
  await page.getByRole('heading', { name: 'Is it you?' }).waitFor()
  expect((await it.log(id)).filter(({ type }) => type === 'request.answered')).toEqual([])
  await look('phone-proof')
  await tap('Use a passkey')
  await page.getByText('Nothing is waiting for you').waitFor()
  const [answered] = (await it.log(id)).flatMap((event) => (event.type === 'request.answered' ? [event.body.answer] : []))
  expect(answered).toMatchObject({ decision: 'allow', scope: 'once' })
  expect(wrong).toEqual([])
}, 120_000)

test('a login link that is put into the address of a page that is open already logs in, and leaves it', async ({ it, enter }) => {
  const { context } = await enter('desktop')
  await context.clearCookies()
  const { page, go, wrong } = await openTab(context, it)
  await go('/')
  await page.getByText('This device is not logged in').waitFor()
  const { url } = await it.api.createLoginLink()
  await page.evaluate((hash) => {
    location.hash = hash
  }, new URL(url).hash)
  await page.getByRole('status').filter({ hasText: 'Live' }).first().waitFor({ state: 'attached' })
  expect(new URL(page.url()).hash).toBe('')
  expect(wrong).toEqual([])
})

test('the cookie of a device that is logged out is refused at once, on streams that stand open too', async ({ it, enter }) => {
  const victim = await enter('desktop')
  const cookies = await victim.context.cookies()
  const cookie = cookies.map(({ name, value }) => `${name}=${value}`).join('; ')
  const thief = (path: string, accept = 'application/json') => it.raw(`/api/v1${path}`, { headers: { cookie, accept } })
  const { id } = await it.api.createSession({ body: { name: 'Watched' } })
  const streams = await Promise.all([thief('/events', 'text/event-stream'), thief(`/sessions/${id}/events`, 'text/event-stream')])
  const readers = streams.map(({ body }) => body!.getReader())
  for (const reader of readers) expect((await reader.read()).done).toBe(false)
  const ended = readers.map(async (reader) => {
    // Cut off in the middle, or ended.
    while (!(await reader.read().catch(() => ({ done: true }))).done);
  })

  const address = `${it.url.replace('http', 'ws')}/api/v1/sessions/${id}/terminal?cols=80&rows=24`
  // Node's own takes headers, which the types of the page's do not know.
  const shell = new WebSocket(address, { headers: { cookie, origin: it.url } } as never)
  await new Promise((resolve, reject) => {
    shell.addEventListener('message', resolve, { once: true })
    shell.addEventListener('error', reject, { once: true })
  })
  const shellEnded = new Promise((resolve) => shell.addEventListener('close', resolve, { once: true }))

  const other = await enter('desktop')
  await other.go('/settings/account')
  const here = other.page.getByRole('region', { name: 'Devices' })
  await here.getByText('This one').waitFor()
  expect(await here.getByRole('listitem').count()).toBeGreaterThan(1)
  await other.look('desktop-account')
  await other.page.getByRole('button', { name: 'Log out all others' }).click()
  // Nobody had to ask anything for these to end.
  await Promise.all([...ended, shellEnded])
  for (const path of ['/whoami', '/events', `/sessions/${id}`]) expect((await thief(path)).status).toBe(401)
  await victim.page.getByText('This device is not logged in').waitFor()
  await victim.look('desktop-login-ways')
  await here.getByRole('listitem').nth(1).waitFor({ state: 'detached' })
  expect(other.wrong).toEqual([])
})

test('pages of other sites, and of this one without its origin, cannot log anybody in or out', async ({ it, browser }) => {
  const post = (path: string, headers: Record<string, string>) =>
    it.raw(`/api/v1${path}`, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: '{}' })
  for (const origin of ['https://evil.example', 'null', 'http://localhost:1'])
    for (const path of ['/login', '/login/password', '/login/passkey/options', '/logout', '/account/devices/revoke-others'])
      expect((await post(path, { origin })).status, `${origin} ${path}`).toBe(403)
  const context = await browser.newContext(devices.phone)
  const { page } = await openTab(context, it)
  await page.goto('data:text/html,<p>elsewhere')
  const seen = await page.evaluate(
    (url) =>
      fetch(url, { method: 'POST', credentials: 'include' }).then(
        () => 'answered',
        () => 'refused',
      ),
    `${it.url.replace('127.0.0.1', 'localhost')}/api/v1/logout`,
  )
  expect(seen).toBe('refused')
  await context.close()
})
