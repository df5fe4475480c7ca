import { Failure } from '@anchorhold/protocol/failures'

/** How long a cell stands. */
export type Standing = {
  /** Aborted when its end begins. */
  readonly over: AbortSignal
  /** Settles with the reason when it has ended by itself. */
  readonly ended: Promise<string>
  /** The same as soon as it begins to end: its processes go before the promise settles. */
  readonly ending: string | null
  end(): Promise<void>
  endBecause(why: string): Promise<void>
  /** Throws when no command can be run in it any more. */
  requireFor(command: string): void
}

/** `takeDown` is done once for all who ask: whoever is told that the cell has ended may take its folders away, and a second end would
 *  look for them. Only after one that failed it is tried again. */
export function standing(takeDown: () => Promise<void>): Standing {
  const over = new AbortController()
  const ended = Promise.withResolvers<string>()
  let ending: Promise<void> | null = null
  let why: string | null = null
  async function end(): Promise<void> {
    over.abort()
    ending ??= takeDown().catch((error: unknown) => {
      ending = null
      throw error
    })
    await ending
  }
  return {
    over: over.signal,
    ended: ended.promise,
    get ending() {
      return why
    },
    end,
    async endBecause(reason) {
      if (over.signal.aborted) return
      why = `The cell was ended: ${reason}`
      await end()
      ended.resolve(why)
    },
    requireFor(command) {
      if (over.signal.aborted) throw new Failure('cell_unavailable', `Cannot run "${command}": the cell has ended`)
    },
  }
}
