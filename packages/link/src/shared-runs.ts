/** Does one piece of work whenever somebody wants it, never twice at once. Who wants it while it is being done shares the run after that with all
 *  others who do: it has not begun, so it sees what each of them has changed. No more than one ever waits. */
export function sharedRuns(run: () => Promise<void>): () => Promise<void> {
  let last: Promise<void> = Promise.resolve()
  let waiting: Promise<void> | null = null
  return () => {
    waiting ??= last = last
      .catch(() => {})
      .then(() => {
        waiting = null
        return run()
      })
    return waiting
  }
}
