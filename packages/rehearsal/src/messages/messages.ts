import { reply } from '../brain.ts'
import type { Answer, Dialect, Piece } from '../dialect.ts'
import { conversationOf, readRequest } from './request.ts'
import { askedBy, countedBy, streamed, whole } from './stream.ts'

const json = 'application/json'
const messagesPath = '/v1/messages'
const countPath = '/v1/messages/count_tokens'

/** The Messages API of Anthropic. */
export const messages: Dialect = {
  serves: (path) => path === messagesPath || path === countPath,
  answer(path, body) {
    const request = readRequest(body)
    if ('wrong' in request) return refusal(400, request.wrong)
    if (path === countPath) return said(JSON.stringify({ input_tokens: countedBy(request) }))
    const next = reply(conversationOf(request))
    if (next.kind === 'error') return refusal(next.status, next.message)
    const asked = askedBy(request)
    if (request.stream !== true) return { status: 200, contentType: json, pieces: whole(asked, next.moves) }
    return { status: 200, contentType: 'text/event-stream; charset=utf-8', pieces: streamed(asked, next.moves) }
  },
  refusal,
}

/** The API's names for what can go wrong. */
const typeOf = (status: number): string =>
  ({ 404: 'not_found_error', 411: 'invalid_request_error', 413: 'request_too_large', 529: 'overloaded_error' })[status] ??
  (status >= 500 ? 'api_error' : 'invalid_request_error')

function refusal(status: number, message: string): Answer {
  return said(JSON.stringify({ type: 'error', error: { type: typeOf(status), message } }), status)
}

function said(text: string, status = 200): Answer {
  const pieces: Piece[] = [{ at: 'text', text }]
  return { status, contentType: json, pieces }
}
