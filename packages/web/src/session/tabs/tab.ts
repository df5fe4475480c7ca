import { z } from 'zod'

/** The views of a session; the conversation is the one without a name in the address. */
export const Tab = z.enum(['changes', 'files', 'terminal', 'network', 'cost'])
export type Tab = z.infer<typeof Tab>

export const tabFaces = {
  changes: 'Changes',
  files: 'Files',
  terminal: 'Terminal',
  network: 'Network',
  cost: 'Cost',
} as const satisfies Record<Tab, string>
