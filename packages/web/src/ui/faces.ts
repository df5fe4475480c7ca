import type { Rung } from '@anchorhold/protocol/rungs'
import type { SessionState } from '@anchorhold/protocol/sessions'

export type Tone = 'accent' | 'good' | 'quiet' | 'danger'

/** How each state of a session looks. */
export const stateFaces = {
  creating: { label: 'Setting up', tone: 'quiet', moving: true },
  ready: { label: 'Ready', tone: 'good', moving: false },
  working: { label: 'Working', tone: 'good', moving: true },
  waiting: { label: 'Needs you', tone: 'accent', moving: false },
  paused: { label: 'Paused', tone: 'quiet', moving: false },
  stopped: { label: 'Stopped', tone: 'quiet', moving: false },
  interrupted: { label: 'Interrupted', tone: 'danger', moving: false },
  failed: { label: 'Failed', tone: 'danger', moving: false },
  archived: { label: 'Archived', tone: 'quiet', moving: false },
} as const satisfies Record<SessionState, { label: string; tone: Tone; moving: boolean }>

/** How each rung is named for people; without a wall there is nothing to be calm about. */
export const rungFaces = {
  none: { label: 'No wall', about: 'The agent runs on this machine as you would: nothing holds it', tone: 'danger' },
  bwrap: { label: 'bwrap', about: 'A bubblewrap cell: no network, no secret, one folder', tone: 'quiet' },
  seatbelt: { label: 'seatbelt', about: "A cell by macOS's own sandbox", tone: 'quiet' },
  container: { label: 'container', about: 'A rootless container', tone: 'quiet' },
  gvisor: { label: 'gvisor', about: 'A container with a kernel of its own in front', tone: 'quiet' },
  microvm: { label: 'microvm', about: 'A machine of its own', tone: 'quiet' },
} as const satisfies Record<Rung, { label: string; about: string; tone: Tone }>
