import { printableAction, printableActionLine, printableLine } from '@anchorhold/core/printable'
import { requestWords } from '@anchorhold/core/request-words'
import type { RequestAction } from '@anchorhold/protocol/events'

/** What a request is about, whole, line by line and fit to be printed: whoever answers it must have seen all of it. The words come out of a
 *  cell. Every line of theirs begins behind a bar, also where it is wrapped, so that none can pass for one of ours.
 *  `width`: of the terminal; null where nothing wraps. */
export function requestLines(action: RequestAction, width: number | null): readonly string[] {
  const { title, exact } = requestWords(action)
  const isProse = action.kind === 'question' || action.kind === 'plan'
  const linesOf = (text: string) =>
    (isProse
      ? text.split('\n').map(printableLine)
      : printableAction(text)
          .split('\n')
          .map((line) => line.replaceAll('\t', ' '))
    ).flatMap((line) => wrapped(line, width))
  const lines = exact.flatMap(({ name, text }) => [
    // A field's name stands behind another sign than its text does.
    ...(name === null ? [] : wrapped(`${printableActionLine(name)}:`, width).map((line) => `  ├ ${line}`)),
    ...linesOf(text).map((line) => `  │ ${line}`),
  ])
  return [`${printableActionLine(title)}:`, ...lines]
}

/** What stands in front of a line, here and where it is shown. */
const marginColumns = 10
const columnsMin = 20

/** Cut where a terminal would go on at its left edge. What is not ASCII may be two columns wide. */
function wrapped(line: string, width: number | null): readonly string[] {
  const columns = width === null ? Infinity : Math.max(columnsMin, width - marginColumns)
  const lines: string[] = []
  let current = ''
  let used = 0
  for (const character of line) {
    const wide = character > '\u007f' ? 2 : 1
    if (used + wide > columns) {
      lines.push(current)
      current = ''
      used = 0
    }
    current += character
    used += wide
  }
  return [...lines, current]
}
