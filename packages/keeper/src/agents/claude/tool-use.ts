import type { RequestAction } from '@anchorhold/protocol/events'
import type { CanUseTool } from '@anthropic-ai/claude-agent-sdk'
import type { AgentListener } from '../agent.ts'

const planCharsMax = 200_000

/** Questions and plans are asked of people; every other tool is for the keeper to allow. */
export function canUseTool(heard: Pick<AgentListener, 'ask' | 'mayRun'>): CanUseTool {
  return async (tool, input, { signal, toolUseID }) => {
    if (tool === 'AskUserQuestion') {
      const answer = await heard.ask(questionOf(input), toolUseID, signal)
      return answer.decision === 'allow'
        ? { behavior: 'allow', updatedInput: { ...input, answers: answer.answers ?? {} } }
        : { behavior: 'deny', message: answer.reason ?? 'The user does not want to answer' }
    }
    if (tool === 'ExitPlanMode') {
      const plan = typeof input.plan === 'string' ? input.plan : JSON.stringify(input)
      const answer = await heard.ask({ kind: 'plan', plan: plan.slice(0, planCharsMax) }, toolUseID, signal)
      return answer.decision === 'allow'
        ? { behavior: 'allow', updatedInput: input }
        : { behavior: 'deny', message: answer.reason ?? 'The user does not approve the plan' }
    }
    const verdict = await heard.mayRun(tool, input, signal)
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
