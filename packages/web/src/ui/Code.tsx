import { memo, useEffect, useState } from 'react'
import { CopyButton } from './controls.tsx'
import type { Token } from './highlight.ts'
import { LongText } from './LongText.tsx'

const highlightCharsMax = 30_000

/** A block of code. Colours come later and change nothing else, so that nothing moves. */
export const Code = memo(function Code({
  text,
  language,
  bare = false,
}: {
  readonly text: string
  readonly language: string | null
  /** Inside a frame of its own. */
  readonly bare?: boolean
}) {
  const [lines, setLines] = useState<{ readonly of: string; readonly lines: readonly (readonly Token[])[] } | null>(null)
  useEffect(() => {
    if (language === null || text.length > highlightCharsMax) return
    let current = true
    void import('./highlight.ts')
      .then(({ highlight }) => highlight(text, language))
      .then((found) => current && found !== null && setLines({ of: text, lines: found }))
      .catch(() => {})
    return () => void (current = false)
  }, [text, language])
  const coloured = lines !== null && lines.of === text ? lines.lines : null
  return (
    <div className={`code group/code relative ${bare ? '' : 'rounded-xl border border-line bg-raised/60'}`}>
      <div
        tabIndex={0}
        role="region"
        aria-label={language === null ? 'Code' : `Code: ${language}`}
        className="scroll max-h-[32rem] overflow-x-auto px-4 py-3 pr-11 font-mono text-[0.8125rem] leading-relaxed"
      >
        {coloured === null ? (
          text.length > highlightCharsMax ? (
            <LongText text={text} mono />
          ) : (
            <pre className="font-mono">{text}</pre>
          )
        ) : (
          <pre className="font-mono">
            {coloured.map((tokens, index) => (
              <span key={index}>
                {tokens.map((token, at) => (
                  <span key={at} style={{ color: token.color }}>
                    {token.text}
                  </span>
                ))}
                {'\n'}
              </span>
            ))}
          </pre>
        )}
      </div>
      <CopyButton text={text} name="Copy the code" className="absolute top-1.5 right-1.5 bg-surface/80" />
    </div>
  )
})
