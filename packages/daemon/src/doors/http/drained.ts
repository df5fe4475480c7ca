import type { ServerResponse } from 'node:http'

/** A reader that takes nothing for so long is cut off; it comes back with the number it has. */
const stalledMs = 60_000

/** Resolves when the reader has taken what was written, or is gone. */
export function drained(response: ServerResponse, end: AbortController): Promise<void> {
  if (response.destroyed) return Promise.resolve()
  return new Promise((resolve) => {
    const stalled = setTimeout(() => end.abort(), stalledMs)
    const done = () => {
      clearTimeout(stalled)
      response.off('drain', done).off('close', done)
      resolve()
    }
    response.on('drain', done).on('close', done)
  })
}
