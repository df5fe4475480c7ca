import type { Connection } from '../live/house.ts'
import { useConnection } from '../live/house.ts'

const faces = {
  connecting: { label: 'Connecting…', dot: 'bg-faint working-dot', loud: true },
  live: { label: 'Live', dot: 'bg-good', loud: false },
  lost: { label: 'Reconnecting…', dot: 'bg-accent working-dot', loud: true },
  offline: { label: 'Offline', dot: 'bg-danger', loud: true },
  logged_out: { label: 'Logged out', dot: 'bg-danger', loud: true },
} as const satisfies Record<Connection, { label: string; dot: string; loud: boolean }>

/** Says how fresh the page is: a quiet dot while everything arrives, words when it does not. */
export function ConnectionMark() {
  const { label, dot, loud } = faces[useConnection()]
  return (
    <span role="status" className="inline-flex h-7 items-center gap-2 text-xs text-soft" title={label}>
      <span aria-hidden className={`size-2 rounded-full ${dot}`} />
      <span className={loud ? '' : 'sr-only'}>{label}</span>
    </span>
  )
}
