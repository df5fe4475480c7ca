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

/** What an edit changed, line by line. The code that compares is fetched when the first diff is opened. */
export function Diff({ edits }: { readonly edits: readonly Edit[] }) {
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
  if (lines === null) return <div className="h-16" />
  return (
    <div
      tabIndex={0}
      role="region"
      aria-label="Changes"
      className="scroll max-h-[32rem] overflow-x-auto py-2 font-mono text-[0.8125rem] leading-relaxed"
    >
      {lines.slice(0, linesMax).map(({ kind, text }, index) => (
        <div key={index} className={`flex min-w-max px-4 ${marks[kind].look}`}>
          <span aria-hidden className="w-5 shrink-0 select-none">
            {marks[kind].sign}
          </span>
          {kind !== 'same' && <span className="sr-only">{marks[kind].word}</span>}
          <span className="whitespace-pre">{text || ' '}</span>
        </div>
      ))}
      {lines.length > linesMax && <p className="px-4 pt-2 text-faint">… {lines.length - linesMax} more lines</p>}
    </div>
  )
}
