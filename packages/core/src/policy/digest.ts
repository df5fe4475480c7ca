import type { Action } from '@anchorhold/protocol/actions'
import { toolNamed } from '../agents/tools.ts'
import { hostName } from './meaning.ts'

const depthMax = 200

/** What an action means, as one text: equal for equal meanings, whatever the order of fields and the words that describe it. */
export function meaningText(action: Action): string {
  return canonicalJson(meant(action))
}

/** The digest that a grant is bound to. */
export const digestOf = (action: Action, sha256: (text: string) => string): string =>
  sha256(`anchorhold action 1\n${meaningText(action)}`)

function meant(action: Action): Readonly<Record<string, unknown>> {
  switch (action.kind) {
    case 'tool': {
      const dropped = toolNamed(action.tool).describes ?? []
      const input = Object.fromEntries(Object.entries(action.input).filter(([name]) => !dropped.includes(name)))
      return { kind: 'tool', tool: action.tool, input }
    }
    case 'net':
      return { kind: 'net', host: hostName(action.host), port: action.port, method: action.method, path: action.path }
    case 'host':
      return { kind: 'host', program: action.program, params: action.params }
    case 'spend':
      // More money is not the permission that a rule asks for, and the other way round.
      return { kind: 'spend', provider: action.provider ?? null, model: action.model, short: action.short }
  }
}

/** JSON with the fields of every object sorted. Throws for what is nested deeper than anybody could read. */
export function canonicalJson(value: unknown, depth = 0): string {
  if (depth > depthMax) throw new RangeError(`Cannot read a value that is nested more than ${depthMax} deep`)
  if (Array.isArray(value)) return `[${value.map((one) => canonicalJson(one, depth + 1)).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  const fields = Object.entries(value)
    .filter(([, one]) => one !== undefined)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
  return `{${fields.map(([name, one]) => `${JSON.stringify(name)}:${canonicalJson(one, depth + 1)}`).join(',')}}`
}
