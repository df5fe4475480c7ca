// Keeps the app's own files, so that it opens without a network. It keeps nothing of the API: what the page last knew is the page's
// own to remember. The build writes the version and the list.
const version = '__VERSION__'
const files = ['__FILES__']
const shell = '/'

self.addEventListener('install', (event) => {
  event.waitUntil(
    caches
      .open(version)
      .then((cache) => cache.addAll([shell, '/icon.svg', '/apple-touch-icon.png', '/manifest.webmanifest', ...files]))
      .then(() => self.skipWaiting()),
  )
})

self.addEventListener('activate', (event) => {
  event.waitUntil(
    caches
      .keys()
      .then((names) => Promise.all(names.filter((name) => name !== version).map((name) => caches.delete(name))))
      // The page is asked for while this worker is being started.
      .then(() => self.registration.navigationPreload?.enable())
      .then(() => self.clients.claim()),
  )
})

self.addEventListener('fetch', (event) => {
  const { request } = event
  const { origin, pathname } = new URL(request.url)
  if (request.method !== 'GET' || origin !== self.location.origin || pathname.startsWith('/api/')) return
  if (request.mode === 'navigate') {
    event.respondWith(pageFor(event))
    return
  }
  event.respondWith(caches.match(request).then((found) => found ?? fetch(request)))
})

// How long somebody waits for the newest page before they are shown the kept one.
const pageMs = 3000

// The newest page when the daemon answers soon, the kept one when it does not, or when only something before it does.
async function pageFor({ request, preloadResponse }) {
  const newest = Promise.resolve(preloadResponse).then((early) => early ?? fetch(request))
  const late = new Promise((resolve) => setTimeout(resolve, pageMs, null))
  const answer = await Promise.race([newest.catch(() => null), late])
  if (answer !== null && answer.status < 500) return answer
  return (await caches.match(shell)) ?? newest
}

// A message of the daemon, which only this browser can read. It is always shown, since browsers take the right to be told away from who
// shows nothing; without a sound while the app itself is in front of somebody.
const labels = { allow: 'Allow once', deny: 'Deny' }

self.addEventListener('push', (event) => {
  event.waitUntil(show(event.data))
})

function messageIn(data) {
  try {
    return data.json()
  } catch {
    return { title: 'Anchorhold', body: '', actions: [] }
  }
}

async function show(data) {
  const message = messageIn(data)
  const windows = await self.clients.matchAll({ type: 'window', includeUncontrolled: true })
  await self.registration.showNotification(String(message.title), {
    body: String(message.body),
    tag: String(message.request ?? message.session),
    silent: windows.some(({ visibilityState }) => visibilityState === 'visible'),
    icon: '/apple-touch-icon.png',
    data: { request: message.request, session: message.session },
    actions: message.actions.flatMap((action) => (Object.hasOwn(labels, action) ? [{ action, title: labels[action] }] : [])),
  })
}

self.addEventListener('notificationclick', (event) => {
  event.notification.close()
  event.waitUntil(act(event.action, event.notification.data))
})

// What is allowed or denied here goes the way of every answer; what is refused, as for want of a fresh proof, is answered in the app.
async function act(action, { request, session }) {
  if (Object.hasOwn(labels, action) && /^req_[0-9a-z]{16}$/.test(request)) {
    const answered = await fetch(`/api/v1/requests/${request}/answer`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ decision: action }),
    }).catch(() => null)
    if (answered?.ok) return
  }
  const path = request !== undefined ? '/inbox' : /^ses_[0-9a-z]{16}$/.test(session) ? `/sessions/${session}` : '/'
  const [open] = await self.clients.matchAll({ type: 'window' })
  if (open === undefined) return self.clients.openWindow(path)
  await open.focus()
  return open.navigate(path)
}

// The browser has given this device another address: the daemon is told, or nothing would come any more.
self.addEventListener('pushsubscriptionchange', (event) => {
  event.waitUntil(resubscribe(event))
})

async function resubscribe({ newSubscription, oldSubscription }) {
  const devices = '/api/v1/push/devices'
  const given = newSubscription ?? (await self.registration.pushManager.subscribe(await options(oldSubscription)))
  const { endpoint, keys } = given.toJSON()
  await fetch(devices, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ endpoint, keys: { p256dh: keys.p256dh, auth: keys.auth }, name: 'Renewed by the browser' }),
  })
}

async function options(oldSubscription) {
  if (oldSubscription?.options?.applicationServerKey) return oldSubscription.options
  const { key } = await (await fetch('/api/v1/push/key')).json()
  return { userVisibleOnly: true, applicationServerKey: key }
}
