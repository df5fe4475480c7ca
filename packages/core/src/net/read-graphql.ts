import { exceedsJson } from '@anchorhold/protocol/json-shape'
import { type DocumentNode, Kind, OperationTypeNode, parse } from 'graphql/language'

/** What a GraphQL request asks for: to read, or one kind of change by name. */
export type GraphqlMeaning = { readonly mutation: string | null } | { readonly refused: string }

/** No query of a person's tool is nearly as long. */
const tokensMax = 20_000
const bounds = { depthMax: 100, partsMax: 20_000 } as const

/** Reads the body of a request (graphql.org, "Serving over HTTP"). What could be read in two ways is refused, and so is what holds more than
 *  one kind of change: each is decided by itself. */
export function readGraphql(body: string): GraphqlMeaning {
  if (exceedsJson(new TextEncoder().encode(body), bounds))
    return { refused: 'its body has too many parts, or is nested too deep' }
  const keys = keysOf(body)
  if (keys === null) return { refused: 'its body is no JSON object' }
  if (new Set(keys).size !== keys.length) return { refused: 'its body says something twice' }
  const parsed: unknown = JSON.parse(body)
  const query = typeof parsed === 'object' && parsed !== null && 'query' in parsed ? parsed.query : null
  if (typeof query !== 'string') return { refused: 'its body has no query' }
  try {
    return meaningOf(parse(query, { noLocation: true, maxTokens: tokensMax }))
  } catch {
    return { refused: 'its query is no GraphQL, or too long' }
  }
}

/** The names of an object's own values, as often as they are written; null for what is no object. */
function keysOf(body: string): string[] | null {
  try {
    const parsed: unknown = JSON.parse(body)
    if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) return null
  } catch {
    return null
  }
  const keys: string[] = []
  let depth = 0
  for (const [token] of body.matchAll(/"(?:[^"\\]|\\.)*"(?:\s*:)?|[{}[\]]/gs)) {
    if (token === '{' || token === '[') depth++
    else if (token === '}' || token === ']') depth--
    else if (depth === 1 && token.endsWith(':')) keys.push(JSON.parse(token.slice(0, -1)) as string)
  }
  return keys
}

function meaningOf({ definitions }: DocumentNode): GraphqlMeaning {
  const changes = new Set<string>()
  for (const definition of definitions) {
    if (definition.kind === Kind.FRAGMENT_DEFINITION) continue
    if (definition.kind !== Kind.OPERATION_DEFINITION || definition.operation === OperationTypeNode.SUBSCRIPTION)
      return { refused: 'it asks for something else than a query or a mutation' }
    if (definition.operation === OperationTypeNode.QUERY) continue
    for (const selection of definition.selectionSet.selections) {
      // What a fragment changes stands elsewhere, and may not be what it says.
      if (selection.kind !== Kind.FIELD) return { refused: 'its mutation has a fragment at its top' }
      changes.add(selection.name.value)
    }
  }
  if (changes.size > 1) return { refused: 'it makes several kinds of change at once' }
  return { mutation: [...changes][0] ?? null }
}
