import { testPushService } from '@anchorhold/daemon/push/test-push-service'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { installation, until } from '../e2e/installation.ts'
import { loggedIn, openBrowser } from './browser.ts'

let browser: Browser
beforeAll(async () => {
  browser = await openBrowser()
})
afterAll(() => browser.close())

test('a request reaches a device in words that only it can read, and is answered from the notification', async () => {
  await using service = await testPushService()
  await using house = await installation({
    config: `push_hosts: ["${service.host}"]\ndisk_low_gib: 1000000\n`,
    env: { NODE_EXTRA_CA_CERTS: service.certificateFile },
  })
  const { page, go, look, context, wrong } = await loggedIn(browser, 'phone', house)
  // The disk is said to be full here, and everybody is told.
  await page.getByText(/The disk is nearly full/).waitFor()
  await go('/settings/notifications')
  await page.getByRole('button', { name: 'Notify this device' }).waitFor()
  // Debian's Chromium has no push service to subscribe to: the page hands over a subscription to the one of this test.
  const added = await page.evaluate(
    async (body) =>
      (
        await fetch('/api/v1/push/devices', {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(body),
        })
      ).status,
    { ...service.subscription(), name: 'Chromium of the test' },
  )
  expect(added).toBe(201)
  await page.reload()
  // What the daemon has is not what the browser has.
  await page.getByText(/this browser no longer allows it/).waitFor()
  await context.grantPermissions(['notifications'], { origin: new URL(page.url()).origin })
  await page.evaluate(() => navigator.serviceWorker.ready.then(() => null))
  await page.addInitScript(() => {
    PushManager.prototype.getSubscription = () => Promise.resolve({} as PushSubscription)
  })
  await page.reload()
  await page.getByText('Notifications are on.').waitFor()
  await look('phone-notifications')

  const { id } = await house.api.createSession({
    body: { name: 'Rings \u202E', autonomy: 'restricted', prompt: { text: 'run echo rung' } },
  })
  const { text, headers, sender } = await until(() => service.messages[0])
  expect(JSON.parse(text)).toMatchObject({
    kind: 'request',
    session: id,
    title: '“Rings \\u{202e}” wants to run',
    body: 'echo rung',
    actions: ['allow', 'deny'],
  })
  expect(headers).toMatchObject({ 'content-encoding': 'aes128gcm', urgency: 'high' })
  expect(sender).toBe((await house.api.pushKey()).key)

  // The message is given to the browser's own service worker, with the app closed: it shows it, and its button answers.
  await page.evaluate(() => navigator.serviceWorker.ready.then(() => null))
  const worker = context.serviceWorkers()[0] ?? (await context.waitForEvent('serviceworker'))
  const origin = new URL(page.url()).origin
  await context.grantPermissions(['notifications'], { origin })
  await page.goto('about:blank')
  const outcome = await worker.evaluate(async (message) => {
    const here = globalThis as unknown as {
      registration: ServiceWorkerRegistration
      dispatchEvent(event: Event): boolean
      PushEvent: new (type: string, init: object) => Event
      NotificationEvent: new (type: string, init: object) => Event
    }
    /** Gives the worker an event and waits for all that it asks the browser to wait for. */
    const give = async (event: Event): Promise<void> => {
      const awaited: Promise<unknown>[] = []
      Object.defineProperty(event, 'waitUntil', { value: (work: Promise<unknown>) => void awaited.push(work) })
      here.dispatchEvent(event)
      await Promise.all(awaited)
    }
    // Asked while one is being shown, Chromium takes it for one that was closed and forgets it: it is asked for afterwards, and once.
    await give(new here.PushEvent('push', { data: message }))
    const [notification] = await here.registration.getNotifications()
    if (notification === undefined) return 'nothing was shown'
    const { title, body } = notification
    const actions = (notification as unknown as { actions: { action: string; title: string }[] }).actions
    await give(new here.NotificationEvent('notificationclick', { notification, action: 'allow' }))
    return { title, body, actions: actions.map((one) => one.title) }
  }, text)
  expect(outcome).toEqual({ title: '“Rings \\u{202e}” wants to run', body: 'echo rung', actions: ['Allow once', 'Deny'] })
  const answered = await until(async () => (await house.api.listRequests({ query: { all: 'true' } })).requests[0]?.answer)
  expect(answered).toMatchObject({ decision: 'allow', scope: 'once' })
  // Nobody watched it end: who follows its stream would have.
  await until(() => service.messages.find((one) => one.text.includes('is done')))

  // A subscription that is gone is forgotten.
  service.answer = 410
  await house.api.createSession({ body: { name: 'Nobody hears', prompt: { text: 'say bye' } } })
  await until(async () => {
    const { devices } = await house.api.listPushDevices()
    return devices.length === 0
  })
  expect(wrong.filter((what) => !what.startsWith('request about:blank'))).toEqual([])
  await context.close()
}, 120_000)
