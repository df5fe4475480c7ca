import { z } from 'zod'
import { PromptId, SessionId } from '../ids.ts'
import { Micros } from '../money.ts'
import { Rung } from '../rungs.ts'
import { SessionOptions } from '../session-options.ts'
import { NewPrompt, PromptReceipt, Session, SessionState } from '../sessions.ts'
import { Cursor, Done, type Route, session } from './route.ts'

export const CreateSession = SessionOptions.extend({
  prompt: NewPrompt.omit({ idempotency_key: true, mode: true }).optional(),
  idempotency_key: z.string().min(1).max(200).optional(),
})
export type CreateSession = z.infer<typeof CreateSession>

export const ChangeSession = SessionOptions.pick({ name: true, model: true, autonomy: true })
  .extend({ budget_micros: Micros.nullable() })
  .partial()
export type ChangeSession = z.infer<typeof ChangeSession>

export const ForkSession = z.strictObject({
  name: SessionOptions.shape.name,
  at: z.int().min(1).optional().describe('The conversation up to this event; all of it otherwise. Files are always those of now'),
  share_workspace: z.boolean().optional().describe('Work in the same folder, as the same user, instead of in a copy of it'),
  idempotency_key: CreateSession.shape.idempotency_key,
})
export type ForkSession = z.infer<typeof ForkSession>

/** A keeper: what it does, and how its model calls fare. */
export const Worker = z.object({
  /** The session that it tends, or the one that it will. */
  session: SessionId,
  name: z.string().nullable(),
  status: z.enum(['idle', 'busy', 'unhealthy']),
  /** Why the cell of one that waits does not stand, where it does not. */
  trouble: z.string().optional(),
  rung: Rung,
  /** 0 for one that waits for a session. */
  sessions: z.int(),
  requests: z.int(),
  errors: z.int(),
  mean_ms: z.int().nullable(),
})
export type Worker = z.infer<typeof Worker>

const verb = (summary: string) => ({ summary, ...session, status: 200, response: Session }) as const

export const sessionsRoutes = {
  createSession: {
    summary: 'Create a session; returns at once',
    body: CreateSession,
    status: 201,
    response: Session,
  },
  listSessions: {
    summary: 'Sessions, the most recently active first',
    query: z.strictObject({
      archived: z.enum(['true', 'false']).optional(),
      state: SessionState.optional(),
      needs_you: z.literal('true').optional().describe('Only sessions that wait for an answer'),
      before: Cursor.optional().describe('Only sessions last active before this time, for the next page'),
      limit: z.coerce.number().int().min(1).max(500).optional(),
    }),
    status: 200,
    response: z.object({ sessions: z.array(Session), more: z.boolean() }),
  },
  getSession: { summary: 'One session', ...session, status: 200, response: Session },
  changeSession: {
    summary: 'Change name, model, budget or autonomy',
    ...session,
    body: ChangeSession,
    status: 200,
    response: Session,
  },
  deleteSession: {
    summary: 'Archive a session: its log stays',
    ...session,
    status: 200,
    response: Session,
  },
  purgeSession: {
    summary: 'Remove an archived session for good, with its log and workspace',
    ...session,
    body: z.strictObject({ confirm: SessionId }),
    status: 200,
    response: Done,
  },
  archive: verb('End the session for good; it becomes read-only'),
  prompt: {
    summary: 'Send a prompt',
    ...session,
    body: NewPrompt,
    status: 202,
    response: PromptReceipt,
  },
  dropPrompt: {
    summary: 'Take back a prompt that the agent has not been given yet',
    params: z.strictObject({ id: SessionId, prompt: PromptId }),
    status: 200,
    response: Session,
  },
  interrupt: {
    ...verb('End the running turn'),
    body: z.strictObject({ drop_queued: z.boolean().optional() }).optional(),
  },
  stop: verb('End the cell; the workspace stays'),
  start: verb('Make a stopped session ready again'),
  pause: verb('No new model call or tool starts; running ones finish'),
  resume: verb('Go on after a pause'),
  warm: {
    ...verb('Start cell and agent ahead of a prompt that is being written; they leave when none comes'),
    status: 202,
  },
  fork: {
    summary: 'A new session with a copy of the conversation, up to an event if one is named, and of the workspace as it is now',
    ...session,
    body: ForkSession.optional(),
    status: 201,
    response: Session,
  },
  workers: {
    summary: 'Every keeper: idle, busy or unhealthy, its rung and its model calls',
    status: 200,
    response: z.object({ workers: z.array(Worker) }),
  },
} as const satisfies Record<string, Route>
