import type { RequestAction } from '@anchorhold/protocol/events'
import { formatUsd, microsUp } from '@anchorhold/protocol/money'

/** What a request is about, whole: whoever answers it must have seen all of it. The words come out of a cell. */
export function requestWords(action: RequestAction): readonly string[] {
  switch (action.kind) {
    case 'plan':
      return ['The agent asks for approval of its plan:', ...action.plan.split('\n').map((line) => `  ${line}`)]
    case 'question':
      return action.questions.flatMap(({ question, options }) => [
        question,
        ...options.map(
          ({ label, description }, index) => `  ${index + 1}. ${label}${description === undefined ? '' : ` — ${description}`}`,
        ),
      ])
    case 'tool':
      return [`The agent wants to use ${action.tool}:`, ...inputLines(action.input)]
    case 'net':
      return [`The agent wants to reach ${action.host}:${action.port}${calledWith(action)}`]
    case 'host':
      return [`The agent wants to run "${action.program}" on this machine:`, ...inputLines(action.params)]
    case 'spend':
      return [spendWords(action)]
  }
}

const calledWith = ({ method, path }: Extract<RequestAction, { kind: 'net' }>) =>
  method === null ? '' : ` with ${method} ${path ?? ''}`

/** Every field, texts as they are and all else as JSON. */
function inputLines(input: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(input).flatMap(([name, value]) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value)
    const [first = '', ...rest] = text.split('\n')
    return rest.length === 0 ? [`  ${name}: ${first}`] : [`  ${name}:`, ...[first, ...rest].map((line) => `    ${line}`)]
  })
}

function spendWords({ model, needed_nanos, left_nanos, budget_nanos }: Extract<RequestAction, { kind: 'spend' }>): string {
  const usd = (nanos: number) => formatUsd(microsUp(nanos))
  return `A call of ${model} may cost up to ${usd(needed_nanos)}, and of the ${usd(budget_nanos)} that may be spent ${usd(left_nanos)} are left. Let it spend what the call needs?`
}
