import { OctagonX } from 'lucide-react'
import { useState } from 'react'
import { PanicDialog } from './PanicDialog.tsx'

/** Within reach on every screen of a phone: one tap asks, the next one stops everything. */
export function PanicButton() {
  const [asking, setAsking] = useState(false)
  return (
    <>
      <button
        type="button"
        aria-label="Stop every agent…"
        title="Stop every agent…"
        onClick={() => setAsking(true)}
        className="grid size-11 shrink-0 place-items-center rounded-xl text-faint hover:bg-raised hover:text-danger"
      >
        <OctagonX size={20} aria-hidden />
      </button>
      <PanicDialog open={asking} onClose={() => setAsking(false)} />
    </>
  )
}
