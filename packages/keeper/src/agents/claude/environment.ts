import { type CellEnvironment, cellEnvironment } from '../../cell-environment.ts'
import type { AgentDriver } from '../agent.ts'

/** How the agent's calls leave the cell: by the socket of a window, or through a forwarder that listens on its loopback. */
export type ModelRoute = { readonly socket: string } | { readonly port: number }

/** What the agent's program waits for by itself, in milliseconds: its own servers of tools, and commands. */
const agentWaits = { MCP_TIMEOUT: 30_000, BASH_DEFAULT_TIMEOUT_MS: 120_000, BASH_MAX_TIMEOUT_MS: 600_000 } as const

/** It would give up what takes long only because the cell is slow. */
const patience = (slowness: number): Record<string, string> =>
  slowness === 1
    ? {}
    : Object.fromEntries(Object.entries(agentWaits).map(([name, ms]) => [name, String(Math.round(ms * slowness))]))

type ClaudeEnvironment = CellEnvironment & {
  readonly model: ModelRoute
  /** Of the cell. */
  readonly slowness: number
}

/** The whole environment of the agent. The token is a placeholder: the window drops it. */
export function claudeEnvironment({ model, slowness, ...cell }: ClaudeEnvironment): Record<string, string> {
  const route: Record<string, string> =
    'socket' in model
      ? { ANTHROPIC_UNIX_SOCKET: model.socket, ANTHROPIC_BASE_URL: `http://${modelHost}` }
      : { ANTHROPIC_BASE_URL: `http://127.0.0.1:${model.port}` }
  return {
    CLAUDE_CONFIG_DIR: `${cell.home}/.claude`,
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS: '1',
    // The most that it takes: nobody may be there who would say "go on" when a provider was away.
    CLAUDE_CODE_MAX_RETRIES: '15',
    CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST: '1',
    ENABLE_TOOL_SEARCH: 'false',
    ANTHROPIC_AUTH_TOKEN: 'placeholder',
    ...route,
    ...patience(slowness),
    ...cellEnvironment(cell),
    ...direct(cell.env),
  }
}

/** The name under which the agent knows the socket of its model. No proxy is asked for it. */
const modelHost = 'anthropic.internal'
const direct = (env: CellEnvironment['env']): Record<string, string> =>
  Object.fromEntries(['NO_PROXY', 'no_proxy'].flatMap((name) => (name in env ? [[name, `${env[name]},${modelHost}`]] : [])))

const forwarderInside = '/opt/anchorhold/forwarder'

/** Where a cell finds the agent's program, and what carries its calls where a socket does not do. */
export const agentMounts: AgentDriver['mounts'] = ({ program, node, forwarder, reader }) => [
  { source: program, target: '/opt/anchorhold/claude' },
  { source: node, target: `${forwarderInside}/node` },
  { source: forwarder, target: `${forwarderInside}/forwarder.mjs` },
  { source: reader, target: `${forwarderInside}/reader.mjs` },
]
