import type { ServerResponse } from 'node:http'
import type { Answer, Dialect } from './dialect.ts'

const of =
  (kind: Answer['kind']) =>
  (message: string): Answer => ({ kind, message })

export const refused = of('refused')
export const malformed = of('malformed')
export const unknownPath = of('unknown_path')
export const tooLarge = of('too_large')
export const unreachable = of('unreachable')
export const overloaded = of('overloaded')
export const failed = of('failed')

export const unwritable = refused(
  'Anchorhold cannot write down what calls cost, so it makes none: look at the disk of its state folder',
)

export function answerIn(dialect: Dialect, response: ServerResponse, what: Answer): void {
  const { status, json } = dialect.error(what)
  respond(response, status, json)
}
export function respond(response: ServerResponse, status: number, json: string): void {
  if (response.destroyed || response.headersSent) return
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(json) }).end(json)
}
