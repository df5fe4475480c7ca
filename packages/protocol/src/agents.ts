import { z } from 'zod'

/** The coding agents that there are a driver for. */
export const AgentKind = z.enum(['claude'])
export type AgentKind = z.infer<typeof AgentKind>
