import type { AgentKind } from '@anchorhold/protocol/agents'
import { claudeTools } from './claude.ts'
import type { Tool, Tools } from './tool.ts'

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
