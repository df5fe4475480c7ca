import { lazy, memo, Suspense } from 'react'
import { LongText } from './LongText.tsx'
import { readable } from './markdown-bounds.ts'

const RichText = lazy(async () => ({ default: (await import('./RichText.tsx')).RichText }))

/** What an agent wrote: as the text it is until what makes more of it has been fetched. */
export const Markdown = memo(function Markdown({ text, growing = false }: { readonly text: string; readonly growing?: boolean }) {
  const { text: clean, markdown } = readable(text)
  if (!markdown) return <LongText text={clean} />
  return (
    <Suspense fallback={<div className="prose whitespace-pre-wrap">{clean}</div>}>
      <RichText text={clean} growing={growing} />
    </Suspense>
  )
})
