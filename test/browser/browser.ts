/// <reference lib="dom" />
import { AxeBuilder } from '@axe-core/playwright'
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { type Installation, installation, type InstallationOptions, root } from '../e2e/installation.ts'

/** Debian's own, which setup installs for the tests. */
const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) =>
  existsSync(path),
)
const args = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

export const openBrowser = (more: readonly string[] = []): Promise<Browser> => {
  if (executablePath === undefined) throw new Error('There is no Chromium: node bin/setup.mjs --for-tests installs it')
  return chromium.launch({ executablePath, args: [...args, ...more] })
}

export const devices = {
  phone: { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true, colorScheme: 'dark' },
  desktop: { viewport: { width: 1440, height: 900 }, colorScheme: 'light' },
} as const

/** Where a run leaves a picture of each screen. */
const pictures = join(root, 'dist/pictures')

/** A tab, and everything in it that must not be. */
export type Tab = {
  readonly page: Page
  /** Requests to anywhere but the daemon, dialogs, errors of the page and what its own rules have stopped. */
  readonly wrong: string[]
  /** Opens a screen of the app. */
  go(path: string): Promise<void>
  /** No serious fault for those who cannot see or point, and a picture. */
  look(name: string): Promise<void>
  /** The same, and once more in the colours that this device has not: there only what colours can do wrong. */
  lookTwice(name: string): Promise<void>
}

export async function openTab(context: BrowserContext, it: Installation): Promise<Tab> {
  const page = await context.newPage()
  // A machine that does much else at the same time takes long to start an agent.
  page.setDefaultTimeout(120_000)
  const wrong: string[] = []
  const home = () => `http://localhost:${new URL(it.url).port}`
  await page.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI, sample }) =>
      console.error(`violated ${violatedDirective} ${blockedURI} ${sample}`),
    )
  })
  page.on('request', (request) => {
    const url = request.url()
    if (!/^http:\/\/localhost:\d+\//.test(url)) wrong.push(`request ${url}`)
  })
  page.on('dialog', (dialog) => {
    wrong.push(`dialog ${dialog.message()}`)
    void dialog.dismiss()
  })
  page.on('pageerror', (error) => void wrong.push(`error ${error.message}`))
  page.on('console', (message) => {
    const text = message.text()
    if (message.type() === 'error' && !text.startsWith('Failed to load resource')) wrong.push(`console ${text}`)
  })
  const picture = async (name: string) => {
    mkdirSync(pictures, { recursive: true })
    await page.screenshot({ path: join(pictures, `${name}.png`) })
  }
  const faultless = async (name: string, axe: AxeBuilder) => {
    const { violations } = await axe.setLegacyMode().analyze()
    const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
    const words = serious.map(
      ({ id, nodes }) =>
        `${id}: ${nodes.map(({ html, failureSummary }) => `${html.slice(0, 200)} ${failureSummary}`).join(' | ')}`,
    )
    expect(words, name).toEqual([])
  }
  const look = async (name: string) => {
    await faded(page)
    await picture(name)
    await faultless(name, new AxeBuilder({ page }))
  }
  return {
    page,
    wrong,
    go: async (path) => void (await page.goto(`${home()}${path}`)),
    look,
    async lookTwice(name) {
      await look(name)
      const dark = await page.evaluate(() => matchMedia('(prefers-color-scheme: dark)').matches)
      const other = dark ? 'light' : 'dark'
      await page.emulateMedia({ colorScheme: other })
      await faded(page)
      await picture(`${name}-${other}`)
      await faultless(`${name}, ${other}`, new AxeBuilder({ page }).withRules(['color-contrast']))
      await page.emulateMedia({ colorScheme: dark ? 'dark' : 'light' })
    },
  }
}

/** What fades in is looked at when it is there. */
const faded = (page: Page) =>
  page.evaluate(() =>
    Promise.allSettled(
      document
        .getAnimations()
        .filter(({ effect }) => effect?.getComputedTiming().iterations === 1)
        .map(({ finished }) => finished),
    ),
  )

/** A tab of a browser that has followed a login link. */
export async function loggedIn(
  browser: Browser,
  device: keyof typeof devices,
  it: Installation,
): Promise<Tab & { context: BrowserContext }> {
  const context = await browser.newContext(devices[device])
  const tab = await openTab(context, it)
  const { url } = await it.api.createLoginLink()
  await tab.go(`/${new URL(url).hash}`)
  await tab.page.getByRole('status').filter({ hasText: 'Live' }).first().waitFor({ state: 'attached' })
  return { ...tab, context }
}

/** Tests in a browser of a house. Both are there for all tests of a file; what a test enters by is closed behind it. */
export const testIn = (options: InstallationOptions = {}) =>
  test
    // oxlint-disable-next-line no-empty-pattern -- vitest reads from the pattern what a fixture needs
    .extend('house', { scope: 'file' }, async ({}, { onCleanup }) => {
      const [it, browser] = await Promise.all([installation(options), openBrowser()])
      onCleanup(async () => {
        await browser.close()
        await it[Symbol.asyncDispose]()
      })
      return { it, browser }
    })
    .extend('it', { scope: 'file' }, ({ house }) => house.it)
    .extend('browser', { scope: 'file' }, ({ house }) => house.browser)
    .extend('enter', ({ it, browser, task }, { onCleanup }) => {
      const entered: BrowserContext[] = []
      onCleanup(async () => {
        if (task.result?.state === 'fail') await tellOf(entered, task.id)
        await Promise.all(entered.map((context) => context.close()))
      })
      return async (device: keyof typeof devices) => {
        const tab = await loggedIn(browser, device, it)
        entered.push(tab.context)
        return tab
      }
    })

/** What was on the screens when a test failed: its error says only what was not. */
async function tellOf(contexts: readonly BrowserContext[], name: string): Promise<void> {
  for (const [index, page] of contexts.flatMap((context) => context.pages()).entries()) {
    const path = join(pictures, `failed-${name}-${index}.png`)
    mkdirSync(pictures, { recursive: true })
    await page.screenshot({ path, timeout: 10_000 }).catch(() => {})
    const words = await page.locator('body').innerText({ timeout: 10_000 }).catch(String)
    const fields = await page
      .getByRole('textbox')
      .evaluateAll((all) => all.map((one) => (one as HTMLInputElement).value))
      .catch(String)
    console.log(`${page.url()} said, when the test failed (${path}):\n${words}\nand in its fields: ${JSON.stringify(fields)}`)
  }
}

/** A fingerprint reader that always finds its person. */
export async function withAuthenticator(context: BrowserContext, page: Page): Promise<void> {
  const devtools = await context.newCDPSession(page)
  await devtools.send('WebAuthn.enable')
  await devtools.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  })
}
