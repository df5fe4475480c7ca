import type { Target } from '@anchorhold/core/net/target'
import type { Wanted } from './refusals.ts'

/** What was let out and has not ended. */
export type Let = {
  readonly wanted: Wanted & { readonly target: Target }
  /** What allowed it. */
  readonly by: string
  /** Aborts when it has ended. */
  readonly gone: AbortSignal
  /** Why it would not be sent as it was, beside what rules say; null when it would. */
  readonly differs: () => string | null
  /** Both of its ends, as far as there are any yet. */
  readonly ends: readonly { destroy(): unknown }[]
}

/** Connections and calls that stand, held to what is in force now and not to what was when they began. */
export type Standing = {
  /** To be given to `hold`: what has been looked through by the time that something was judged. */
  readonly looked: number
  /** Holds it until it has ended; cuts it at once where it was judged by what is in force no longer. */
  hold(one: Let, looked: number): void
  /** Cuts whatever is not allowed any more. */
  look(): void
}

export function standing(whyNot: () => (one: Let) => string | null, onCut: (one: Let, why: string) => void): Standing {
  const all = new Set<Let>()
  let looked = 0
  function cutWhere(why: (one: Let) => string | null, some: Iterable<Let>): void {
    for (const one of some) {
      const reason = why(one)
      if (reason === null) continue
      all.delete(one)
      onCut(one, reason)
      for (const end of one.ends) end.destroy()
    }
  }
  return {
    get looked() {
      return looked
    },
    hold(one, before) {
      if (one.gone.aborted) return
      all.add(one)
      one.gone.addEventListener('abort', () => all.delete(one), { once: true })
      if (before !== looked) cutWhere(whyNot(), [one])
    },
    look() {
      looked++
      if (all.size > 0) cutWhere(whyNot(), [...all])
    },
  }
}
