import type { RequestAction } from '@anchorhold/protocol/events'
import { isNetTool } from '@anchorhold/protocol/net-calls'
import type { CanUseTool, HookCallback, HookCallbackMatcher, PreToolUseHookInput } from '@anthropic-ai/claude-agent-sdk'
import { createHash } from 'node:crypto'
import type { AgentListener } from '../agent.ts'

const planCharsMax = 200_000

const asksPeople = new Set(['AskUserQuestion', 'ExitPlanMode'])

/** Both ways in which the CLI asks before a tool runs. What was allowed by the first is not judged again by the second. */
export function toolChecks(heard: Pick<AgentListener, 'ask' | 'mayRun'>, offers: { readonly netTools: boolean }) {
  const allowed = allowances()
  const checked = { ...heard, mayRun: offers.netTools ? heard.mayRun : exceptNetTools(heard.mayRun) }
  return { preToolUse: beforeToolUse(checked, allowed), canUseTool: canUseTool(checked, allowed) }
}

/** Where there is no net window, what bears the name of a tool that is judged there is none of ours. */
const exceptNetTools =
  (mayRun: AgentListener['mayRun']): AgentListener['mayRun'] =>
  async (tool, ...rest) =>
    isNetTool(tool) ? { allow: false, why: 'This session has no network' } : mayRun(tool, ...rest)

/** Every other tool is for the keeper to allow, whatever the agent's own settings and those of its workspace say: by itself the
 *  CLI asks only for some. It is done here and not in `canUseTool`, because a hook of the workspace's could answer for that one.
 *  Of several hooks the strictest decides. */
function beforeToolUse(heard: Pick<AgentListener, 'mayRun'>, allowed: Allowances): HookCallbackMatcher {
  const hook: HookCallback = async (input, toolUseId, { signal }) => {
    const { tool_name, tool_input, tool_use_id, cwd } = input as PreToolUseHookInput
    const decide = (permissionDecision: 'allow' | 'deny' | 'ask', permissionDecisionReason: string) => ({
      hookSpecificOutput: { hookEventName: 'PreToolUse' as const, permissionDecision, permissionDecisionReason },
    })
    if (asksPeople.has(tool_name)) return decide('ask', 'A person answers this')
    const call = toolUseId ?? tool_use_id
    const verdict = await heard.mayRun(tool_name, fieldsOf(tool_input), callOf(call), signal, folderOf(cwd))
    if (!verdict.allow) return decide('deny', verdict.why)
    allowed.add(call, tool_name, tool_input)
    return decide('allow', 'Allowed')
  }
  return { hooks: [hook], timeout: waitSecondsMax, onFailure: 'block' }
}
/** A week: whoever waits longer than its policy says is parked long before. */
const waitSecondsMax = 7 * 24 * 60 * 60
/** A shell that was led elsewhere stays there: what later calls name is looked for from there. */
const folderOf = (cwd: unknown) =>
  typeof cwd === 'string' && cwd.startsWith('/') && cwd.length <= pathCharsMax ? cwd : undefined
const pathCharsMax = 4096
const fieldsOf = (input: unknown): Readonly<Record<string, unknown>> =>
  typeof input === 'object' && input !== null ? { ...input } : { input }

/** Calls that were allowed, until they are asked about once more, which is not done for all of them. The oldest are forgotten, and one whose
 *  id is longer than ids are is not remembered: it is judged again. So is one that a hook of the workspace's has changed in between. */
type Allowances = {
  add(call: unknown, tool: string, input: unknown): void
  take(call: unknown, tool: string, input: unknown): boolean
}
function allowances(): Allowances {
  const calls = new Map<string, string>()
  const digest = (tool: string, input: unknown) =>
    createHash('sha256')
      .update(JSON.stringify([tool, fieldsOf(input)]))
      .digest('base64')
  return {
    add(call, tool, input) {
      if (typeof call !== 'string' || call.length > callCharsMax) return
      calls.set(call, digest(tool, input))
      if (calls.size > allowedMax) calls.delete(calls.keys().next().value!)
    },
    take(call, tool, input) {
      if (typeof call !== 'string') return false
      const allowed = calls.get(call)
      calls.delete(call)
      return allowed === digest(tool, input)
    },
  }
}
const allowedMax = 1000

/** As events tell it (`translate.ts`). */
const callOf = (id: unknown) => words(id, callCharsMax)
const callCharsMax = 200

/** Questions and plans are asked of people. */
function canUseTool(heard: Pick<AgentListener, 'ask' | 'mayRun'>, allowed: Allowances): CanUseTool {
  return async (tool, input, { signal, toolUseID }) => {
    if (tool === 'AskUserQuestion') {
      const answer = await heard.ask(questionOf(input), callOf(toolUseID), signal)
      return answer.decision === 'allow'
        ? { behavior: 'allow', updatedInput: { ...input, answers: answer.answers ?? {} } }
        : { behavior: 'deny', message: answer.reason ?? 'The user does not want to answer' }
    }
    if (tool === 'ExitPlanMode') {
      const plan = typeof input.plan === 'string' ? input.plan : JSON.stringify(input)
      if (plan.length > planCharsMax)
        return { behavior: 'deny', message: `The plan is longer than the ${planCharsMax} characters that a person is shown` }
      const answer = await heard.ask({ kind: 'plan', plan }, callOf(toolUseID), signal)
      return answer.decision === 'allow'
        ? { behavior: 'allow', updatedInput: input }
        : { behavior: 'deny', message: answer.reason ?? 'The user does not approve the plan' }
    }
    if (allowed.take(toolUseID, tool, input)) return { behavior: 'allow', updatedInput: input }
    const verdict = await heard.mayRun(tool, input, callOf(toolUseID), signal)
    return verdict.allow ? { behavior: 'allow', updatedInput: input } : { behavior: 'deny', message: verdict.why }
  }
}

/** What the agent asks, as far as it can be read: it comes out of the cell, and may have any shape. */
function questionOf(input: Readonly<Record<string, unknown>>): RequestAction {
  return {
    kind: 'question',
    questions: records(input.questions).map((one) => ({
      question: words(one.question, 4000),
      ...(typeof one.header === 'string' ? { header: one.header.slice(0, 200) } : {}),
      multi: one.multiSelect === true,
      options: records(one.options).map((option) => ({
        label: words(option.label, 500),
        ...(typeof option.description === 'string' ? { description: option.description.slice(0, 2000) } : {}),
      })),
    })),
  }
}

const words = (value: unknown, max: number) => (typeof value === 'string' ? value.slice(0, max) : '')

const records = (value: unknown): readonly Readonly<Record<string, unknown>>[] =>
  Array.isArray(value)
    ? value.slice(0, 20).map((one: unknown) => (typeof one === 'object' && one !== null ? { ...one } : {}))
    : []
