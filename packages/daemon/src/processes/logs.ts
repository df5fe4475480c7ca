import { copyFileSync, rmSync, statSync, truncateSync } from 'node:fs'

/** A log that has grown past this becomes the one before, whose place it takes. */
const logBytesMax = 8 * 1024 * 1024

/** Keeps logs within about twice their bound. The processes that write to them have them open, and go on at the end, wherever that is: so a
 *  log is copied and emptied, and not renamed. A line that comes in between is lost; where there is no room for a copy, all of it is. */
export function boundLogs(paths: readonly string[], bytesMax = logBytesMax): void {
  for (const path of paths) {
    try {
      if (statSync(path).size <= bytesMax) continue
    } catch {
      // Nobody has written to it yet.
      continue
    }
    try {
      copyFileSync(path, `${path}.1`)
    } catch {
      rmSync(`${path}.1`, { force: true })
    }
    truncateSync(path, 0)
  }
}
