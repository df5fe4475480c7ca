import { useState } from 'react'

const stepChars = 20_000

/** Text as it is, however long: a part at a time. */
export function LongText({ text, mono = false }: { readonly text: string; readonly mono?: boolean }) {
  const [shown, setShown] = useState(stepChars)
  const rest = text.length - shown
  return (
    <div>
      <div className={`whitespace-pre-wrap [overflow-wrap:anywhere] ${mono ? 'font-mono text-[0.8125rem] leading-relaxed' : ''}`}>
        {text.slice(0, shown)}
      </div>
      {rest > 0 && (
        <button
          type="button"
          className="mt-2 min-h-8 rounded-lg bg-raised px-3 text-[0.8125rem] text-soft hover:text-ink"
          onClick={() => setShown(shown + stepChars * 5)}
        >
          Show more ({rest.toLocaleString()} characters)
        </button>
      )}
    </div>
  )
}
