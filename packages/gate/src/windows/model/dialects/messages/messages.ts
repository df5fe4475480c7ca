import type { Answer, Dialect } from '../../dialect.ts'
import { agentOf, headersOf, probeHeaders } from './headers.ts'
import { meter } from './meter.ts'
import { screen, serialise } from './screen.ts'

const endpoints = { '/v1/messages': true, '/v1/messages/count_tokens': false } as const

/** The Messages API of Anthropic, as Claude Code speaks it. */
export const messages: Dialect = {
  name: 'messages',
  speaks: 'the Anthropic Messages API',
  serves: 'POST /v1/messages and /v1/messages/count_tokens',
  endpoint(pathname, query) {
    if (!Object.hasOwn(endpoints, pathname)) return null
    const beta = query.split('&').includes('beta=true') ? '?beta=true' : ''
    return { path: `${pathname}${beta}`, costs: endpoints[pathname as keyof typeof endpoints] }
  },
  screen,
  // Agents move their cache marks from call to call, and send a lone text first as a block, to mark it, and later as a string. A text
  // cannot hide in a mark: its bytes stay in the rest.
  remembered: (json) => plain(json.replaceAll(/,"cache_control":\{[^{}]*\}/g, '')),
  outgoing: ({ request, endpoint: { path }, from, allow, key }, maxTokens) => ({
    path,
    headers: headersOf(from, key, allow),
    body: serialise(request, maxTokens),
  }),
  agentOf,
  meter,
  passes: (header) => header.startsWith('anthropic-ratelimit-'),
  error({ kind, message }) {
    const { status, type } = errors[kind]
    return { status, json: JSON.stringify({ type: 'error', error: { type, message } }) }
  },
  probe: (model, key) => ({
    path: '/v1/messages',
    headers: probeHeaders(key),
    body: JSON.stringify({ model, max_tokens: 1, messages: [{ role: 'user', content: 'Say hi.' }] }),
  }),
  readProbe(json) {
    try {
      const body = JSON.parse(json) as { readonly type?: unknown; readonly error?: { readonly message?: unknown } } | null
      const said = body?.error?.message
      const kind = body?.type === 'message' ? 'answer' : body?.type === 'error' ? 'error' : 'unknown'
      return { kind, error: typeof said === 'string' ? said : null }
    } catch {
      return { kind: 'unknown', error: null }
    }
  },
}

/** Agents retry 401, 402 and 429 for minutes, and show a 403 at once; 502 and 529 they try again. */
const errors: Readonly<Record<Answer['kind'], { readonly status: number; readonly type: string }>> = {
  refused: { status: 403, type: 'permission_error' },
  malformed: { status: 400, type: 'invalid_request_error' },
  unknown_path: { status: 404, type: 'not_found_error' },
  too_large: { status: 413, type: 'request_too_large' },
  unreachable: { status: 502, type: 'api_error' },
  overloaded: { status: 529, type: 'overloaded_error' },
  failed: { status: 500, type: 'api_error' },
}

function plain(json: string): string {
  const match = /^\{"role":"(?:user|assistant|system)","content":\[\{"type":"text","text":"/.exec(json)
  if (match === null || !json.endsWith('"}]}') || json.includes('"},{')) return json
  const [start] = match
  return `${start.slice(0, start.indexOf('['))}${json.slice(start.length - 1, -'}]}'.length)}}`
}
