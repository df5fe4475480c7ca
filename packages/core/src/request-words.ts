import type { RequestAction } from '@anchorhold/protocol/events'
import { formatUsd, microsUp } from '@anchorhold/protocol/money'
import { toolNamed } from './agents/tools.ts'

/** What somebody is asked: a heading, and the exact words of the action, every one of them. Both come out of a cell. */
export type RequestWords = {
  readonly title: string
  readonly exact: readonly { readonly name: string | null; readonly text: string }[]
}

/** `who`: the name that the asking session has where it is read. */
export function requestWords(action: RequestAction, who = 'The agent'): RequestWords {
  switch (action.kind) {
    case 'question':
      return {
        title: `${who} has ${action.questions.length === 1 ? 'a question' : 'questions'}`,
        exact: action.questions.map(({ question, options }) => ({
          name: null,
          text: [question, ...options.map(choice)].join('\n'),
        })),
      }
    case 'plan':
      return { title: 'Plan for approval', exact: [{ name: null, text: action.plan }] }
    case 'tool': {
      const { command: field, describes = [] } = toolNamed(action.tool)
      const command = field === undefined ? undefined : action.input[field]
      return typeof command === 'string'
        ? {
            title: `${who} wants to run`,
            exact: [{ name: null, text: command }, ...fields(action.input, [field!, ...describes])],
          }
        : { title: `${who} wants to use ${action.tool}`, exact: fields(action.input, []) }
    }
    case 'net': {
      const { host, port, method, path } = action
      return {
        title: `${who} wants to reach`,
        exact: [{ name: null, text: method === null ? `${host}:${port}` : `${method} ${host}:${port}${path ?? ''}` }],
      }
    }
    case 'host':
      return {
        title: `${who} wants to run on this machine`,
        exact: [{ name: null, text: action.program }, ...fields(action.params, [])],
      }
    case 'spend': {
      const { model, needed_nanos: needed, left_nanos: left, budget_nanos: budget } = action
      return {
        title: action.short === true ? 'The next model call is over budget' : `${who} wants to call a model`,
        exact: [
          { name: 'model', text: model },
          { name: 'may cost', text: usd(needed) },
          ...(left === null || budget === null ? [] : [{ name: 'left', text: `${usd(left)} of ${usd(budget)}` }]),
          ...(action.short === true && left !== null && budget !== null
            ? [{ name: 'when allowed', text: `that budget is ${usd(budget - left + needed)} from then on` }]
            : []),
        ],
      }
    }
  }
}

const usd = (nanos: number) => formatUsd(microsUp(nanos))

type Choice = Extract<RequestAction, { kind: 'question' }>['questions'][number]['options'][number]
const choice = ({ label, description }: Choice, index: number) =>
  `  ${index + 1}. ${label}${description === undefined ? '' : ` — ${description}`}`

/** The option that somebody means by what they typed: its own label before its number, and otherwise their own words. */
export function chosen(options: readonly Choice[], typed: string): string {
  const word = typed.trim()
  if (options.some(({ label }) => label === word)) return word
  return /^\d+$/.test(word) ? (options[Number(word) - 1]?.label ?? word) : word
}

/** Every field but some, texts as they are and all else as JSON: whoever answers must have seen all of it. */
function fields(input: Readonly<Record<string, unknown>>, but: readonly string[]): RequestWords['exact'] {
  return Object.entries(input)
    .filter(([name]) => !but.includes(name))
    .map(([name, value]) => ({ name, text: typeof value === 'string' ? value : (JSON.stringify(value) ?? '') }))
}
