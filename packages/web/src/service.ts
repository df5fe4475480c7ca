/** Keeps the app's files for when there is no network. Browsers without it, or without a secure origin, do without. It reads every one
 *  of them, and so waits until the first screen has what it needs. */
export function registerServiceWorker(): void {
  if (!('serviceWorker' in navigator) || import.meta.env.DEV) return
  setTimeout(register, navigator.serviceWorker.controller === null ? settledMs : 0)
}

const settledMs = 1500

function register(): void {
  // The one script of ours whose address is not in the page itself, and the one address that is allowed.
  const trusted = globalThis.trustedTypes?.createPolicy('anchorhold', { createScriptURL: (url) => allowed(url) })
  const url = (trusted?.createScriptURL(path) ?? path) as string
  navigator.serviceWorker.register(url).catch(() => {})
}

/** Takes back what this device was told: of requests that have an answer by now, or all when the login ends that it was told by. */
export async function closeNotices(requests: ReadonlySet<string> | 'all'): Promise<void> {
  if (!('serviceWorker' in navigator)) return
  const registration = await navigator.serviceWorker.getRegistration()
  for (const notice of (await registration?.getNotifications?.()) ?? [])
    if (requests === 'all' || requests.has(notice.tag)) notice.close()
}

const path = '/service-worker.js'
function allowed(url: string): string {
  if (url !== path) throw new TypeError('Not a script of this page')
  return url
}

declare global {
  // The part of Trusted Types that is used here: https://www.w3.org/TR/trusted-types/
  var trustedTypes:
    | { createPolicy(name: string, rules: { createScriptURL(url: string): string }): { createScriptURL(url: string): unknown } }
    | undefined
}
