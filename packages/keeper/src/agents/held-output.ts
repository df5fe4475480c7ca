import { setImmediate as soon } from 'node:timers/promises'
import { Readable } from 'node:stream'

export type HeldOutputOptions = {
  /** Resolves when all that was made of it so far is on the disk. */
  readonly stored: () => Promise<void>
  /** A line is longer than any agent's. Nothing more is read, and what comes out has ended. */
  readonly tooLong: () => void
}

/** A model takes 32 MB at a time, and a message of the CLI's may hold a tool's result twice. */
export const lineBytesMax = 64 * 1024 * 1024
/** What may be said before the rest waits until all of it is stored. */
export const unstoredBytesMax = 8 * 1024 * 1024

/** What the CLI says, on its way to the SDK. That one reads as fast as it can, and keeps a line until it ends and a message until somebody
 *  takes it; what comes is whatever code in the cell wrote. So lines are bounded here, and what writes faster than the disk waits, until
 *  nobody wants to hear the rest. */
export function heldOutput(output: Readable, { stored, tooLong }: HeldOutputOptions, signal: AbortSignal): Readable {
  const given = new Promise<void>((up) => signal.addEventListener('abort', () => up(), { once: true }))
  async function* held(): AsyncGenerator<Buffer> {
    let lineBytes = 0
    let unstoredBytes = 0
    try {
      for await (const chunk of output as AsyncIterable<Buffer>) {
        const end = chunk.indexOf(0x0a)
        lineBytes += end === -1 ? chunk.length : end
        if (lineBytes > lineBytesMax) return tooLong()
        if (end !== -1) lineBytes = chunk.length - 1 - chunk.lastIndexOf(0x0a)
        yield chunk
        unstoredBytes += chunk.length
        if (unstoredBytes < unstoredBytesMax) continue
        unstoredBytes = 0
        // The SDK makes messages of it without waiting for anything.
        await soon()
        await Promise.race([stored(), given])
        if (signal.aborted) return
      }
    } catch {
      // It broke off: the process is over, and its exit says how.
    }
  }
  return Readable.from(held(), { objectMode: false })
}
