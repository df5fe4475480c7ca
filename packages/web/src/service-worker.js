// Keeps the app's own files, so that it opens without a network. It keeps nothing of the API: what the page last knew is the page's
// own to remember. The build writes the version and the list.
const version = '__VERSION__'
const files = ['__FILES__']
const shell = '/'

self.addEventListener('install', (event) => {
  event.waitUntil(
    caches
      .open(version)
      .then((cache) => cache.addAll([shell, '/icon.svg', '/manifest.webmanifest', ...files]))
      .then(() => self.skipWaiting()),
  )
})

self.addEventListener('activate', (event) => {
  event.waitUntil(
    caches
      .keys()
      .then((names) => Promise.all(names.filter((name) => name !== version).map((name) => caches.delete(name))))
      .then(() => self.clients.claim()),
  )
})

self.addEventListener('fetch', (event) => {
  const { request } = event
  const { origin, pathname } = new URL(request.url)
  if (request.method !== 'GET' || origin !== self.location.origin || pathname.startsWith('/api/')) return
  if (request.mode === 'navigate') {
    // The newest page when the daemon answers, the kept one when it does not.
    event.respondWith(fetch(request).catch(() => caches.match(shell)))
    return
  }
  event.respondWith(caches.match(request).then((found) => found ?? fetch(request)))
})
