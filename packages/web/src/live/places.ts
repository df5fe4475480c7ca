/** Tabs that nobody looks at and that follow the house all the same. A browser opens six connections to one host (HTTP/1.1), for all of
 *  its tabs together, and each stream holds one: with no limit the seventh tab could not even be loaded. */
const hiddenMax = 2

/** Takes one of the places for hidden tabs, until the signal is aborted; false where the others have them all. A page that was not loaded
 *  safely cannot ask the others, and takes none. */
export async function placeForHidden(locks: LockManager | undefined, signal: AbortSignal): Promise<boolean> {
  if (locks === undefined) return false
  for (let place = 0; place < hiddenMax; place++) {
    const { promise: isTaken, resolve } = Promise.withResolvers<boolean>()
    void locks.request(`anchorhold.hidden.${place}`, { ifAvailable: true }, async (lock) => {
      resolve(lock !== null)
      if (lock === null || signal.aborted) return
      await new Promise((released) => signal.addEventListener('abort', released, { once: true }))
    })
    if (await isTaken) return true
  }
  return false
}
