import { decodeOnce, resolvePath } from '../policy/meaning.ts'

/** What a GraphQL request asks for: to read, or one kind of change by name. */
export type GraphqlMeaning = { readonly mutation: string | null } | { readonly refused: string }

/** Whether a request may be one of GraphQL, however its server reads the path. */
export function isGraphql(path: string): boolean {
  const bare = path.replace(/[?#].*/s, '')
  return [bare, resolvePath(decodeOnce(decodeOnce(bare)).replaceAll('\\', '/'))].some((one) =>
    /\/graphql\/*$/i.test(one.replace(/;.*/s, '')),
  )
}

/** How a request is judged that rules know by a path alone: one that reads by the path itself, a change by a path below it. */
export const graphqlPath = (path: string, mutation: string | null): string =>
  mutation === null ? path : `${path}/mutation/${mutation}`

/** Reads the body of a request (graphql.org, "Serving over HTTP"). What could be read in two ways is refused, and so is what holds more than
 *  one kind of change: each is decided by itself. */
export function readGraphql(body: string): GraphqlMeaning {
  const keys = keysOf(body)
  if (keys === null) return { refused: 'its body is no JSON object' }
  if (new Set(keys).size !== keys.length) return { refused: 'its body says something twice' }
  const parsed: unknown = JSON.parse(body)
  const query = typeof parsed === 'object' && parsed !== null && 'query' in parsed ? parsed.query : null
  if (typeof query !== 'string') return { refused: 'its body has no query' }
  const tokens = tokensOf(query)
  return tokens === null ? { refused: 'its query is no GraphQL' } : meaningOf(tokens)
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

/** The lexical tokens of a document (GraphQL, October 2021, 2.1), without values of strings; null for what is none. */
function tokensOf(text: string): string[] | null {
  const lexical =
    /[\uFEFF\t\n\r ,]+|#[^\n\r]*|("""(?:[^"\\]|\\"""|\\|"(?!""))*"""|"(?:[^"\\\n\r]|\\.)*")|([_A-Za-z]\w*|-?\d[\w.+-]*|\.\.\.|[!$&():=@[\]{|}])/gy
  const tokens: string[] = []
  let at = 0
  for (const found of text.matchAll(lexical)) {
    if (found[1] !== undefined) tokens.push('""')
    else if (found[2] !== undefined) tokens.push(found[2])
    at = found.index + found[0].length
  }
  return at === text.length ? tokens : null
}

const unclear = { refused: 'its query cannot be read in one way only' } as const
const closing: Readonly<Record<string, string>> = { '(': ')', '[': ']', '{': '}' }
const isName = (token: string | undefined): token is string => token !== undefined && /^[_A-Za-z]/.test(token)

function meaningOf(tokens: readonly string[]): GraphqlMeaning {
  const changes = new Set<string>()
  for (let at = 0; at < tokens.length;) {
    const word = tokens[at]!
    if (!['{', 'query', 'mutation', 'fragment'].includes(word))
      return { refused: 'it asks for something else than a query or a mutation' }
    // What stands before the selection: a name, variables, directives.
    while (at < tokens.length && tokens[at] !== '{') at = after(tokens, at)
    const end = at < tokens.length ? after(tokens, at) : Infinity
    if (end > tokens.length) return unclear
    if (word === 'mutation') {
      const fields = fieldsOf(tokens.slice(at + 1, end - 1))
      if (fields === null) return unclear
      for (const field of fields) changes.add(field)
    }
    at = end
  }
  if (tokens.length === 0 || changes.size > 1)
    return tokens.length === 0 ? unclear : { refused: 'it makes several kinds of change at once' }
  return { mutation: [...changes][0] ?? null }
}

/** The fields that a selection names at its top; null where it does not name them there. */
function fieldsOf(tokens: readonly string[]): string[] | null {
  const fields: string[] = []
  for (let at = 0; at < tokens.length;) {
    const [first, second, third] = [tokens[at], tokens[at + 1], tokens[at + 2]]
    if (!isName(first)) return null
    const hasAlias = second === ':'
    if (hasAlias && !isName(third)) return null
    fields.push(hasAlias ? third! : first)
    at += hasAlias ? 3 : 1
    if (tokens[at] === '(') at = after(tokens, at)
    while (tokens[at] === '@') {
      at += 2
      if (tokens[at] === '(') at = after(tokens, at)
    }
    if (tokens[at] === '{') at = after(tokens, at)
    if (at > tokens.length) return null
  }
  return fields.length === 0 ? null : fields
}

/** Behind a token, or behind what closes it; beyond the end where nothing does. */
function after(tokens: readonly string[], from: number): number {
  const open: string[] = []
  for (let at = from; at < tokens.length; at++) {
    const token = tokens[at]!
    const close = closing[token]
    if (close !== undefined) open.push(close)
    else if (token === ')' || token === ']' || token === '}') {
      if (open.pop() !== token) return Infinity
    }
    if (open.length === 0) return at + 1
  }
  return Infinity
}
