import type { ServerResponse } from 'node:http'

/** A refusal or an error of the window's own, as an agent will show it to its user. */
export type Answer = { readonly status: number; readonly type: ErrorType; readonly message: string }

/** The API's names for what can go wrong. */
export type ErrorType =
  | 'invalid_request_error'
  | 'permission_error'
  | 'not_found_error'
  | 'request_too_large'
  | 'api_error'
  | 'overloaded_error'

/** Money, credentials and rules: agents retry 401, 402 and 429 for minutes, and show a 403 at once. */
export const refused = (message: string): Answer => ({ status: 403, type: 'permission_error', message })
export const malformed = (message: string): Answer => ({ status: 400, type: 'invalid_request_error', message })
export const unknownPath = (message: string): Answer => ({ status: 404, type: 'not_found_error', message })
export const tooLarge = (message: string): Answer => ({ status: 413, type: 'request_too_large', message })
/** Agents try again after these. */
export const unreachable = (message: string): Answer => ({ status: 502, type: 'api_error', message })
export const overloaded = (message: string): Answer => ({ status: 529, type: 'overloaded_error', message })

/** The answer's body in the shape that the Messages API gives its errors. */
export const bodyOf = ({ type, message }: Answer): string => JSON.stringify({ type: 'error', error: { type, message } })

export const unwritable = refused(
  'Anchorhold cannot write down what calls cost, so it makes none: look at the disk of its state folder',
)

export function answer(response: ServerResponse, what: Answer): void {
  respond(response, what.status, bodyOf(what))
}
export function respond(response: ServerResponse, status: number, json: string): void {
  if (response.destroyed || response.headersSent) return
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(json) }).end(json)
}
