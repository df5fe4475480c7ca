import type { AgentKind } from '@anchorhold/protocol/agents'
import { claudeTools } from './claude.ts'

/** What a call of an agent's tool does, as far as the house has to know, and in which field of its input that stands. A tool of which
 *  nothing is said here is judged by its name and its input alone. */
export type Tool = {
  /** Hands the text of this field to a shell. */
  readonly command?: string
  /** Is about the file or folder in this field. */
  readonly path?: string
  /** Looks through the folder in `path`, or through the one that its shell stands in. */
  readonly searches?: true
  /** A field with a pattern that may lead elsewhere than `path` says. */
  readonly pattern?: string
  /** Calls the address in this field. */
  readonly url?: string
  /** Fields that only describe the call, and change nothing that it does. */
  readonly describes?: readonly string[]
  /** The name that this tool has now. */
  readonly now?: string
  /** A person answers it, whatever the policy says. */
  readonly forPeople?: true
}
export type Tools = Readonly<Record<string, Tool>>

/** What each agent says of its tools. An action names its tool and not its agent, so a name means the same with every agent: a test holds
 *  that. An agent whose tools have other fields gets names of its own from its driver. */
export const toolsOfAgents: Readonly<Record<AgentKind, Tools>> = { claude: claudeTools }

const all: ReadonlyMap<string, Tool> = new Map(Object.values(toolsOfAgents).flatMap((tools) => Object.entries(tools)))

const unknown: Tool = {}
export const toolNamed = (name: string): Tool => all.get(name) ?? unknown

const byLetters: ReadonlyMap<string, string> = new Map([...all.keys()].map((name) => [name.toLowerCase(), name]))

/** The tool that is meant by a name that no tool has, because its letters are small or large; null where none is. */
export function meantTool(name: string): string | null {
  const meant = byLetters.get(name.toLowerCase())
  return meant === undefined || meant === name ? null : meant
}
