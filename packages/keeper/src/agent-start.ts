import type { KeeperStart } from '@anchorhold/protocol/keeper-start'
import type { AgentListener, AgentStart } from './agents/agent.ts'
import type { Cell } from './cells/cell.ts'
import type { Outfit } from './outfit.ts'

/** A session's agent, as far as it follows from what its keeper was started with. */
export function agentStart(
  start: KeeperStart,
  { cell, outfit, heard }: { readonly cell: Cell; readonly outfit: Outfit; readonly heard: AgentListener },
): AgentStart {
  return {
    cell,
    files: start.files,
    workspace: start.workspace,
    home: `${start.folder}/home`,
    windows: start.windows,
    model: start.model,
    conversation: start.conversation,
    resume: start.resume,
    forgetAfter: start.forget_after,
    unfinished: start.unfinished.map(({ id }) => id),
    takeUp: start.take_up,
    tools: start.tools,
    systemPrompt: start.system_prompt,
    plan: start.plan,
    workspaceSettings: start.workspace_settings,
    modelRoute: start.model_route,
    network: start.network,
    trust: outfit.trust,
    path: outfit.path,
    env: outfit.env,
    heard,
  }
}
