import { requestWords } from '@anchorhold/core/request-words'
import type { RequestAction } from '@anchorhold/protocol/events'

/** What a request is about, whole, line by line: whoever answers it must have seen all of it. The words come out of a cell. */
export function requestLines(action: RequestAction): readonly string[] {
  const { title, exact } = requestWords(action)
  const lines = exact.flatMap(({ name, text }) => {
    const [first = '', ...rest] = text.split('\n')
    if (name === null) return [first, ...rest].map((line) => `  ${line}`)
    return rest.length === 0 ? [`  ${name}: ${first}`] : [`  ${name}:`, ...[first, ...rest].map((line) => `    ${line}`)]
  })
  return [`${title}:`, ...lines]
}
