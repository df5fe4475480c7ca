import { z } from 'zod'
import { SecretName } from './credentials.ts'
import { Micros } from './money.ts'
import { PolicyName } from './people.ts'
import { Autonomy } from './policy.ts'
import { Rung } from './rungs.ts'
import { Extras, ImageName, limits, ModelName, Network, OnCrash, RepoFilter, Spend, WorkspaceAccess } from './sessions.ts'

const Name = z.string().trim().min(1).max(limits.nameLength)
const ProviderName = z
  .string()
  .regex(/^[a-z][a-z0-9-]{0,39}$/, 'this must be the name of a provider: small letters, digits and dashes, a letter first')
const GroupName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9._-]{0,39}$/, 'this must be the name of a group: small letters, digits, dots, dashes and underscores')
const ToolName = z.string().regex(/^\w{1,128}$/, 'this must be the name of a tool, as Bash')

/** What a session is asked to be. All but nothing is required: an empty workspace and the defaults make a session. */
export const SessionOptions = z.strictObject({
  name: Name.optional().describe('A name for people (default: from the first prompt)'),
  workspace: z.string().min(1).max(4096).optional().describe('A folder of this host (default: a new, empty one)'),
  workspace_access: WorkspaceAccess.optional(),
  rung: Rung.optional().describe('How strong the cell must be'),
  repo_filter: RepoFilter.optional().describe(
    'Which files of a host folder the cell does not see: none, standard, strict, or { denylist, allowlist } of patterns',
  ),
  network: Network.optional().describe(
    "What the cell can reach besides its model: nothing, what rules let through its net window, or the host's network",
  ),
  repo: z
    .string()
    .max(300)
    .regex(/^([a-z0-9.-]+\/)?[A-Za-z0-9_][A-Za-z0-9_.-]*\/[A-Za-z0-9_][A-Za-z0-9_.-]*$/, { error: 'write it as owner/name' })
    .refine((name) => !name.endsWith('.git') && !name.includes('..'), { error: 'write it as owner/name, without .git' })
    .optional()
    .describe('The repository that it may push to, as owner/name (default: the one that the folder came from)'),
  extras: Extras.optional(),
  image: ImageName.optional().describe("The image that a container or a machine runs instead of the host's own programs"),
  provider: ProviderName.optional().describe('Where model calls go'),
  model: ModelName.optional(),
  tools: z.array(ToolName).max(limits.toolsPerSession).optional().describe('The agent has these tools and no others'),
  system_prompt: z.string().max(limits.systemPromptLength).optional().describe("Appended to the agent's own"),
  timeout_ms: z.int().min(1000).max(limits.timeoutMsMax).optional().describe('A turn longer than this is interrupted'),
  budget_micros: Micros.optional().describe('What the session may spend, in micro-USD'),
  group: GroupName.optional().describe('Sessions of one group spend out of one budget: anchorhold budget group/NAME USD'),
  agent_budget_micros: Micros.optional().describe(
    'What one sub-agent may spend, in micro-USD, as far as the agent tells its sub-agents apart',
  ),
  plan: z.boolean().optional().describe('Start in plan mode: the agent asks for approval of its plan before it acts'),
  workspace_settings: z
    .enum(['ignore', 'load'])
    .optional()
    .describe("Whether the workspace's own .claude settings, hooks and .mcp.json apply inside the cell, where they run unasked"),
  spend: Spend.optional().describe(
    'When the budget does not hold a model call: refuse it, or hold it for up to five minutes and ask',
  ),
  on_crash: OnCrash.optional().describe(
    'When a crash cuts a turn short: wait for a person, or take the turn up again, at most three times in a row',
  ),
  autonomy: Autonomy.optional().describe('How freely the agent uses its tools (default: as the policy says)'),
  policy: PolicyName.optional().describe("A policy of the config folder that the session is held to beside the house's own"),
  observe: z
    .boolean()
    .optional()
    .describe('What would be asked is done and written down instead, so that a policy can be made of it'),
  secrets: z
    .array(SecretName)
    .max(20)
    .optional()
    .describe('Secrets marked `inside` that its cell is given, each as the variable of its name; for owners alone'),
  toolchains: z
    .array(z.string().regex(/^[a-z0-9-]{1,40}$/, 'this must be the name of a toolchain, as anchorhold doctor shows it'))
    .max(40)
    .optional()
    .describe('Toolchains of the host that are mounted read-only, by the names that doctor prints'),
})
export type SessionOptions = z.infer<typeof SessionOptions>
