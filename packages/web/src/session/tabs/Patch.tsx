import { printable } from '@anchorhold/core/printable'
import { useState } from 'react'

const looks = {
  '+': { word: 'added: ', look: 'bg-good-wash text-good' },
  '-': { word: 'removed: ', look: 'bg-danger-wash text-danger' },
  '@': { word: '', look: 'bg-raised text-faint' },
} as const
const stepLines = 400

/** The lines of a patch as git has them. */
export function Patch({ patch, name }: { readonly patch: string; readonly name: string }) {
  const [shown, setShown] = useState(stepLines)
  const lines = patch.replace(/\n$/, '').split('\n')
  return (
    <div
      tabIndex={0}
      role="region"
      aria-label={name}
      className="scroll max-h-[40rem] overflow-x-auto border-t border-line py-2 font-mono text-[0.8125rem] leading-relaxed"
    >
      {lines.slice(0, shown).map((line, index) => {
        const face = looks[line.charAt(0) as keyof typeof looks] as (typeof looks)[keyof typeof looks] | undefined
        return (
          <div key={index} className={`flex min-w-max px-4 ${face?.look ?? ''}`}>
            <span aria-hidden className="w-5 shrink-0 select-none">
              {line.startsWith('@') ? '' : line.charAt(0)}
            </span>
            {face !== undefined && face.word !== '' && <span className="sr-only">{face.word}</span>}
            <span className="whitespace-pre">{printable(line.startsWith('@') ? line : line.slice(1)) || ' '}</span>
          </div>
        )
      })}
      {lines.length > shown && (
        <button
          type="button"
          className="mx-4 mt-2 min-h-9 rounded-lg bg-raised px-3 font-sans text-soft hover:text-ink"
          onClick={() => setShown(shown + 5 * stepLines)}
        >
          Show more ({(lines.length - shown).toLocaleString()} lines)
        </button>
      )}
    </div>
  )
}
