/** Where a call that needs a fresh proof waits for one. The dialog stands at it; whoever asks first is asked for, and the others wait
 *  along. */
export interface ProofDesk {
  /** True when whoever sits here has shown who they are; false when they would not. */
  ask(why: string): Promise<boolean>
  /** Why it is asked for now; null when it is not. */
  asked(): string | null
  settle(proved: boolean): void
  subscribe(listener: () => void): () => void
}

export function proofDesk(): ProofDesk {
  const listeners = new Set<() => void>()
  let standing: { readonly why: string; readonly proved: Promise<boolean>; readonly settle: (proved: boolean) => void } | null =
    null
  const tell = () => {
    for (const listener of listeners) listener()
  }
  return {
    ask(why) {
      if (standing === null) {
        const { promise, resolve } = Promise.withResolvers<boolean>()
        standing = { why, proved: promise, settle: resolve }
        tell()
      }
      return standing.proved
    },
    asked: () => standing?.why ?? null,
    settle(proved) {
      standing?.settle(proved)
      standing = null
      tell()
    },
    subscribe(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
  }
}

/** Calls as they are, but one that is refused for want of a proof asks for it and is made once more. */
export function withProof<C extends object>(calls: C, desk: ProofDesk, reasonOf: (error: unknown) => string | null): C {
  const wrapped = Object.entries(calls).map(([name, call]: [string, (...args: unknown[]) => Promise<unknown>]) => [
    name,
    async (...args: unknown[]) => {
      try {
        return await call(...args)
      } catch (error) {
        const reason = reasonOf(error)
        if (reason === null || !(await desk.ask(reason))) throw error
        return call(...args)
      }
    },
  ])
  return Object.fromEntries(wrapped) as C
}
