import { z } from 'zod'
import type { Event, EventType } from './events.ts'

/** What an audit looks for, and the events that tell of it. `secret`: a call was made with a provider's credential,
 *  or a secret was put into calls over the network. */
export const auditKinds = {
  decision: ['decision'],
  request: ['request.opened', 'request.deferred', 'request.told'],
  answer: ['request.answered'],
  grant: ['grant.used'],
  money: ['session.changed', 'budget.raised'],
  secret: ['usage', 'net'],
  session: ['session.created', 'session.state', 'session.shared', 'prompt.queued', 'prompt.dropped'],
  workspace: ['terminal.opened', 'terminal.closed', 'file.uploaded'],
} as const satisfies Record<string, readonly EventType[]>

/** Of what went over the network an audit wants to know where secrets went. */
export const isAudited = (event: Event): boolean => event.type !== 'net' || event.body.secrets.length > 0

export const AuditKind = z.enum(Object.keys(auditKinds) as [keyof typeof auditKinds])
export type AuditKind = z.infer<typeof AuditKind>
