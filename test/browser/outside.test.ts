import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createHash, X509Certificate } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, createServer as createPlainServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Installation, installation, until } from '../e2e/installation.ts'
import { devices, openBrowser, withAuthenticator } from './browser.ts'

const caddyPath = '/usr/bin/caddy'

/** A port that was free a moment ago. */
async function freePort(): Promise<number> {
  const server = createPlainServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

let it: Installation
let browser: Browser
let caddy: ChildProcess
let url: string
const folder = mkdtempSync(join(tmpdir(), 'ah-caddy-'))
const authority = join(folder, 'caddy/pki/authorities/local/root.crt')
const signer = join(folder, 'caddy/pki/authorities/local/intermediate.crt')

// Debian has it: apt-get install caddy. Without it there is nothing to see here.
const withCaddy = test.skipIf(!existsSync(caddyPath))

beforeAll(async () => {
  if (!existsSync(caddyPath)) return
  const port = await freePort()
  url = `https://localhost:${port}`
  it = await installation({ config: `public_url: ${url}\ntrusted_proxies: 1\n` })
  const { code } = await it.cli(['expose', 'caddy', '--url', url])
  expect(code).toBe(0)
  const made = readFileSync(join(it.state, 'expose/Caddyfile'), 'utf8')
  expect(made).toContain(`reverse_proxy 127.0.0.1:${new URL(it.url).port}`)
  // An authority of its own, and nothing of the machine's is touched.
  const own = '{\n\tadmin off\n\tlocal_certs\n\tskip_install_trust\n\tauto_https disable_redirects\n}\n'
  writeFileSync(join(folder, 'Caddyfile'), own + made)
  const env = { PATH: process.env.PATH, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }
  caddy = spawn(caddyPath, ['run', '--config', join(folder, 'Caddyfile')], { env, stdio: 'ignore' })
  await until(() => existsSync(authority) && existsSync(signer))
  // A browser makes passkeys only where it trusts the certificate: it is told to trust what this Caddy's authority has signed.
  const key = new X509Certificate(readFileSync(signer)).publicKey.export({ type: 'spki', format: 'der' })
  const pin = createHash('sha256').update(key).digest('base64')
  browser = await openBrowser([`--ignore-certificate-errors-spki-list=${pin}`])
})
afterAll(async () => {
  caddy?.kill()
  await browser?.close()
  await it?.[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true, force: true })
})

const check = (env: Record<string, string> = { NODE_EXTRA_CA_CERTS: authority }) => it.cli(['expose', 'check'], { env })

withCaddy('through a real Caddy the daemon finds itself, and streams, sockets and addresses come through', async () => {
  const { out } = await until(async () => {
    const ran = await check()
    return ran.out.includes('listens') ? null : ran
  })
  expect(out.trim().split('\n')).toEqual([
    '✓ This daemon answers under its public URL',
    '✓ Streams come through as they are written',
    '✓ WebSockets come through',
    '✓ Devices are told apart: this one comes from 127.0.0.1',
  ])
})

withCaddy('a certificate that nobody here trusts is told as that', async () => {
  const { out, code } = await check({})
  expect(out).toMatch(/✗ TLS: the certificate of https:\/\/localhost:\d+ is not one that this machine trusts/)
  expect(code).toBe(1)
})

withCaddy('a browser logs in through it with a cookie of HTTPS alone, and everything is live', async () => {
  const context = await browser.newContext({ ...devices.phone, ignoreHTTPSErrors: true })
  const page = await context.newPage()
  const link = await it.api.createLoginLink()
  expect(link.url.startsWith(url)).toBe(true)
  await page.goto(link.url)
  await page.getByRole('status').filter({ hasText: 'Live' }).first().waitFor({ state: 'attached' })
  expect(await context.cookies()).toMatchObject([
    { name: '__Host-anchorhold', secure: true, httpOnly: true, sameSite: 'Strict', path: '/' },
  ])
  await it.api.createSession({ body: { name: 'Seen from outside' } })
  await page.getByText('Seen from outside').waitFor()
  await context.close()
})

withCaddy('a passkey is made and used through it, for the public name', async () => {
  const context = await browser.newContext(devices.phone)
  const page = await context.newPage()
  await withAuthenticator(context, page)
  const live = () => page.getByRole('status').filter({ hasText: 'Live' }).first().waitFor({ state: 'attached' })
  await page.goto((await it.api.createLoginLink()).url)
  await live()
  await page.goto(`${url}/settings/account`)
  await page.getByRole('button', { name: 'Add a passkey' }).click()
  await page
    .getByRole('region', { name: 'Passkeys' })
    .getByText(/^localhost/)
    .waitFor()
  // As on another day: the device still has its passkey, and nothing else of the house.
  await context.clearCookies()
  await page.goto(url)
  await page.getByRole('button', { name: 'Use a passkey' }).click()
  await live()
  const { events } = await it.api.houseEvents({ query: { limit: 100 } })
  expect(events.flatMap((event) => (event.type === 'login' ? [event.body.how] : [])).at(-1)).toBe('passkey')
  await context.close()
})

withCaddy('a service that is another one is told as that', async () => {
  const other: Server = createServer((_, response) => response.end('<h1>Hello</h1>')).listen(0, '127.0.0.1')
  await new Promise((resolve) => other.once('listening', resolve))
  const elsewhere = `http://localhost:${(other.address() as AddressInfo).port}`
  await using second = await installation({ config: `public_url: ${elsewhere}\n` })
  const { out, code } = await second.cli(['expose', 'check'])
  expect(out).toContain('✗ Wrong service: something else answers (200)')
  expect(code).toBe(1)
  other.close()
})
