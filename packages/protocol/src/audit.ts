import { z } from 'zod'
import type { EventType } from './events.ts'

/** What an audit looks for, and the events that tell of it. `secret`: a call was made with a provider's credential. */
export const auditKinds = {
  decision: ['decision'],
  request: ['request.opened', 'request.deferred', 'request.told'],
  answer: ['request.answered'],
  grant: ['grant.used'],
  money: ['session.changed'],
  secret: ['usage'],
  session: ['session.created', 'session.state', 'session.shared', 'prompt.queued', 'prompt.dropped'],
  workspace: ['terminal.opened', 'terminal.closed', 'file.uploaded'],
} as const satisfies Record<string, readonly EventType[]>

export const AuditKind = z.enum(Object.keys(auditKinds) as [keyof typeof auditKinds])
export type AuditKind = z.infer<typeof AuditKind>
