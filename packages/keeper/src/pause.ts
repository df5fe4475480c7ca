/** Holds tools back while a session is paused. */
export interface Pause {
  readonly on: boolean
  hold(): void
  release(): void
  /** Refuses what is being held back. The pause itself goes on. */
  refuseHeld(): void
  /** Waits while there is a pause; `refused` where what waited must not run any more. */
  passed(): Promise<'may go on' | 'refused'>
}

export function pause(): Pause {
  let held: PromiseWithResolvers<'may go on' | 'refused'> | null = null
  return {
    get on() {
      return held !== null
    },
    hold() {
      held ??= Promise.withResolvers()
    },
    release() {
      held?.resolve('may go on')
      held = null
    },
    refuseHeld() {
      if (held === null) return
      held.resolve('refused')
      held = Promise.withResolvers()
    },
    passed: async () => held?.promise ?? 'may go on',
  }
}
