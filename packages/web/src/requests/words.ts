import type { RequestAction } from '@anchorhold/protocol/events'
import { formatUsd, microsUp } from '@anchorhold/protocol/money'

/** What somebody is asked, in a heading and in the exact words of the action. Both come out of a cell. */
export type Asked = { readonly title: string; readonly exact: readonly { readonly name: string | null; readonly text: string }[] }

export function asked(action: RequestAction): Asked {
  switch (action.kind) {
    case 'question':
      return { title: action.questions.length === 1 ? 'The agent has a question' : 'The agent has questions', exact: [] }
    case 'plan':
      return { title: 'The agent shows its plan', exact: [] }
    case 'tool':
      return action.tool === 'Bash' && typeof action.input['command'] === 'string'
        ? {
            title: 'The agent wants to run',
            exact: [{ name: null, text: action.input['command'] }, ...fields(action.input, ['command', 'description'])],
          }
        : { title: `The agent wants to use ${action.tool}`, exact: fields(action.input, []) }
    case 'net': {
      const { host, port, method, path } = action
      return {
        title: 'The agent wants to reach',
        exact: [{ name: null, text: method === null ? `${host}:${port}` : `${method} ${host}:${port}${path ?? ''}` }],
      }
    }
    case 'host':
      return {
        title: 'The agent wants to run on this machine',
        exact: [{ name: null, text: action.program }, ...fields(action.params, [])],
      }
    case 'spend': {
      const usd = (nanos: number) => formatUsd(microsUp(nanos))
      const { model, needed_nanos: needed, left_nanos: left, budget_nanos: budget } = action
      return {
        title: 'The budget does not hold the next call',
        exact: [
          { name: 'model', text: model },
          { name: 'may cost', text: usd(needed) },
          { name: 'left', text: `${usd(left)} of ${usd(budget)}` },
        ],
      }
    }
  }
}

/** Every field but some, texts as they are and all else as JSON: whoever answers must have seen all of it. */
function fields(input: Readonly<Record<string, unknown>>, but: readonly string[]): Asked['exact'] {
  return Object.entries(input)
    .filter(([name]) => !but.includes(name))
    .map(([name, value]) => ({ name, text: typeof value === 'string' ? value : (JSON.stringify(value) ?? '') }))
}
