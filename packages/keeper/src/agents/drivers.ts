import type { AgentKind } from '@anchorhold/protocol/agents'
import type { AgentDriver } from './agent.ts'
import { claudeDriver } from './claude/claude.ts'

/** How each agent is started and spoken to. */
export const agentDrivers: Readonly<Record<AgentKind, AgentDriver>> = { claude: claudeDriver }
