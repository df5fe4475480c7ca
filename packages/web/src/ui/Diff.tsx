import { printable } from '@anchorhold/core/printable'
import { useEffect, useState } from 'react'
import type { Edit } from '../log/tool-face.ts'

type Line = { readonly kind: 'same' | 'gone' | 'new'; readonly text: string }
const linesMax = 400
const charsMax = 200_000

const marks = {
  same: { sign: ' ', word: '', look: '' },
  gone: { sign: '−', word: 'removed: ', look: 'bg-danger-wash text-danger' },
  new: { sign: '+', word: 'added: ', look: 'bg-good-wash text-good' },
} as const satisfies Record<Line['kind'], { sign: string; word: string; look: string }>

const foldedLines = 8

/** What an edit changed, line by line, or only where it begins. The code that compares is fetched with the first diff. */
export function Diff({
  edits,
  folded = false,
  onMore,
}: {
  readonly edits: readonly Edit[]
  readonly folded?: boolean
  readonly onMore?: () => void
}) {
  const [lines, setLines] = useState<readonly Line[] | null>(null)
  useEffect(() => {
    let current = true
    void import('diff').then(({ diffLines }) => {
      const found = edits.flatMap(({ before, after }): Line[] => {
        if (before.length + after.length > charsMax) return [{ kind: 'same', text: '… too long to compare' }]
        return diffLines(before, after).flatMap(({ value, added, removed }) =>
          value
            .replace(/\n$/, '')
            .split('\n')
            .map((text) => ({ kind: added ? 'new' : removed ? 'gone' : 'same', text: printable(text) }) as const),
        )
      })
      if (current) setLines(found)
    })
    return () => void (current = false)
  }, [edits])
  if (lines === null) return <div className={folded ? heightOf(edits) : 'h-16'} />
  if (folded) return <Beginning lines={lines} onMore={onMore} />
  return (
    <div
      tabIndex={0}
      role="region"
      aria-label="Changes"
      className="scroll max-h-[32rem] overflow-x-auto py-2 font-mono text-[0.8125rem] leading-relaxed"
    >
      {lines.slice(0, linesMax).map((line, index) => (
        <LineView key={index} line={line} />
      ))}
      {lines.length > linesMax && <p className="px-4 pt-2 text-faint">… {lines.length - linesMax} more lines</p>}
    </div>
  )
}

/** From just before the first line that changed, since what stays the same says little. */
function Beginning({ lines, onMore }: { readonly lines: readonly Line[]; readonly onMore: (() => void) | undefined }) {
  const first = lines.findIndex(({ kind }) => kind !== 'same')
  const shown = lines.slice(Math.max(0, first - 1)).slice(0, foldedLines)
  const more = lines.length - shown.length
  return (
    <>
      <div className="overflow-hidden py-2 font-mono text-[0.8125rem] leading-relaxed">
        {shown.map((line, index) => (
          <LineView key={index} line={line} />
        ))}
      </div>
      {more > 0 && (
        <button
          type="button"
          onClick={onMore}
          className="flex min-h-9 w-full items-center border-t border-line px-4 text-xs text-faint hover:bg-raised hover:text-ink"
        >
          {more === 1 ? 'One more line' : `${more.toLocaleString()} more lines`}
        </button>
      )}
    </>
  )
}

/** About what it will take, so that little moves when it comes. */
const heightOf = (edits: readonly Edit[]): string =>
  edits.reduce((sum, { before, after }) => sum + before.split('\n').length + after.split('\n').length, 0) >= foldedLines
    ? 'h-56'
    : 'h-16'

function LineView({ line: { kind, text } }: { readonly line: Line }) {
  return (
    <div className={`flex min-w-max px-4 ${marks[kind].look}`}>
      <span aria-hidden className="w-5 shrink-0 select-none">
        {marks[kind].sign}
      </span>
      {kind !== 'same' && <span className="sr-only">{marks[kind].word}</span>}
      <span className="whitespace-pre">{text || ' '}</span>
    </div>
  )
}
