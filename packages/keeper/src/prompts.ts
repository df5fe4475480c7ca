import type { PromptId } from '@anchorhold/protocol/ids'
import type { TurnCause } from '@anchorhold/protocol/sessions'
import type { AgentPrompt } from './agents/agent.ts'

/** A prompt that waits for its turn; `again` where a keeper before this one handed it on already. */
export type WaitingPrompt = AgentPrompt & { readonly mode: 'steer' | 'queue'; readonly cause: TurnCause; readonly again?: true }

/** The prompts of a session, from when its keeper takes them until its agent has answered them. */
export interface Prompts {
  /** How many wait to be handed on. */
  readonly waiting: number
  /** False for one that was taken before: none is handed on twice. */
  take(prompt: WaitingPrompt): boolean
  /** Knows these as taken, without handing them on. */
  know(ids: readonly PromptId[]): void
  /** Puts these before all others. */
  putFirst(prompts: readonly WaitingPrompt[]): void
  /** Takes out the next one to be handed on: while a turn runs, what steers it goes before what waits for its end. */
  next(during: 'turn' | 'rest'): WaitingPrompt | null
  isWaiting(id: PromptId): boolean
  /** Sees to it that the agent never gets this one; false where it has it, or did have. */
  drop(id: PromptId): boolean
  /** It is with the agent. */
  handed(prompt: WaitingPrompt): void
  /** The agent has let these go, of those that it was given: they are to be handed on once more, before all others. */
  takeBack(ids: readonly PromptId[]): void
  /** The agent is done with it. */
  confirm(id: PromptId): void
  /** With the agent, and not yet part of a result. */
  unconfirmed(): readonly PromptId[]
  /** The same, and those that an agent was given and that wait to be handed on once more: none of them is over. */
  unfinished(): readonly PromptId[]
}

export function prompts(): Prompts {
  const taken = new Set<PromptId>()
  const queue: WaitingPrompt[] = []
  const handed = new Map<PromptId, WaitingPrompt>()
  return {
    get waiting() {
      return queue.length
    },
    take(prompt) {
      if (taken.has(prompt.id)) return false
      taken.add(prompt.id)
      queue.push(prompt)
      return true
    },
    know(ids) {
      for (const id of ids) taken.add(id)
    },
    putFirst(first) {
      queue.unshift(...first)
    },
    next(during) {
      const index = during === 'rest' ? 0 : queue.findIndex(({ mode }) => mode === 'steer')
      return index === -1 ? null : (queue.splice(index, 1)[0] ?? null)
    },
    isWaiting: (id) => queue.some((prompt) => prompt.id === id),
    drop(id) {
      const index = queue.findIndex((prompt) => prompt.id === id && prompt.again === undefined)
      if (index === -1 && taken.has(id)) return false
      taken.add(id)
      if (index !== -1) queue.splice(index, 1)
      return true
    },
    handed: (prompt) => void handed.set(prompt.id, prompt),
    takeBack(ids) {
      const back = ids.flatMap((id) => handed.get(id) ?? [])
      for (const { id } of back) handed.delete(id)
      queue.unshift(...back.map((prompt) => ({ ...prompt, again: true as const })))
    },
    confirm: (id) => void handed.delete(id),
    unconfirmed: () => [...handed.keys()],
    unfinished: () => [...handed.keys(), ...queue.flatMap(({ id, again }) => (again === undefined ? [] : [id]))],
  }
}
