import type { PromptId } from '@anchorhold/protocol/ids'
import type { AgentDriver, AgentListener, AgentPrompt, AgentStart } from './agent.ts'

/** An agent for tests: it does what the test has it do through `heard`, and keeps what it was told. */
export interface FakeAgents extends AgentDriver {
  readonly starts: AgentStart[]
  readonly prompts: AgentPrompt[]
  readonly reminders: AgentPrompt[]
  readonly interrupts: number
  readonly models: string[]
  /** How many agents live now. */
  readonly living: number
  /** The listener of the last one started. */
  readonly heard: AgentListener
}

export type FakeAgentsOptions = {
  /** Resolves when the agent stands; rejects when it cannot. */
  readonly starting?: () => Promise<void>
  /** Resolves when it answers that it is there. */
  readonly answers?: () => Promise<void>
  /** What it lets go of when it is interrupted. */
  readonly interrupt?: () => Promise<readonly PromptId[]>
  /** What it remembers of its unfinished prompts; all of them if nothing is said. */
  readonly unseen?: readonly PromptId[]
  /** Whether it finds the conversation; as it was asked to if nothing is said. */
  readonly resumed?: boolean
}

export function fakeAgents({
  starting = async () => {},
  answers = async () => {},
  interrupt = async () => [],
  unseen = [],
  resumed,
}: FakeAgentsOptions = {}): FakeAgents {
  const starts: AgentStart[] = []
  const prompts: AgentPrompt[] = []
  const reminders: AgentPrompt[] = []
  const models: string[] = []
  const living = new Set<object>()
  let interrupts = 0
  return {
    name: 'fake',
    shellSnapshots: null,
    starts,
    prompts,
    reminders,
    models,
    get interrupts() {
      return interrupts
    },
    get living() {
      return living.size
    },
    get heard() {
      return starts.at(-1)!.heard
    },
    mounts: () => [],
    async start(options) {
      starts.push(options)
      await starting()
      const agent = {
        unseen,
        resumed: resumed ?? options.resume,
        send: (prompt: AgentPrompt) => void prompts.push(prompt),
        remind: (prompt: AgentPrompt) => void reminders.push(prompt),
        interrupt() {
          interrupts++
          return interrupt()
        },
        async setModel(model: string) {
          models.push(model)
        },
        answers,
        commands: async () => [],
        async [Symbol.asyncDispose]() {
          living.delete(agent)
        },
      }
      living.add(agent)
      return agent
    },
  }
}
