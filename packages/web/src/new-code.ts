const place = 'anchorhold.reloaded'
const onceInMs = 60_000

/** A newer daemon has other files than the page was opened with: one that is not to be had any more is asked for by the newer page. Once,
 *  and only where the daemon answers: otherwise a reload would not help, and take away what is shown. */
export function reloadForNewCode(answers: () => boolean): void {
  addEventListener('vite:preloadError', (event) => {
    const last = Number(sessionStorage.getItem(place) ?? 0)
    if (!answers() || Date.now() - last < onceInMs) return
    sessionStorage.setItem(place, String(Date.now()))
    event.preventDefault()
    location.reload()
  })
}
