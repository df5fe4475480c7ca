import type { KeeperStart } from '@anchorhold/protocol/keeper-start'
import type { AgentListener, AgentStart } from './agents/agent.ts'
import type { Cell } from './cells/cell.ts'
import type { Outfit } from './outfit.ts'

/** A session's agent, as far as it follows from what its keeper was started with. */
export function agentStart(
  { place, agent, policy }: KeeperStart,
  { cell, outfit, heard }: { readonly cell: Cell; readonly outfit: Outfit; readonly heard: AgentListener },
): AgentStart {
  return {
    cell,
    files: { ...place.files, program: agent.program },
    workspace: place.workspace,
    home: `${place.folder}/home`,
    windows: place.windows,
    model: agent.model,
    conversation: agent.conversation,
    resume: agent.resume,
    forgetAfter: agent.forget_after,
    unfinished: agent.unfinished.map(({ id }) => id),
    takeUp: agent.take_up,
    tools: agent.tools,
    systemPrompt: agent.system_prompt,
    plan: agent.plan,
    workspaceSettings: agent.workspace_settings,
    modelRoute: agent.model_route,
    network: policy.network,
    trust: outfit.trust,
    path: outfit.path,
    env: outfit.env,
    heard,
  }
}
