import { z } from 'zod'
import { failureCodes } from '../failures.ts'
import { SessionId } from '../ids.ts'

/** How the command line calls itself, so that the log can tell it from other programs. */
export const cliAgent = 'anchorhold-cli'

/** What goes in and out of one call of the HTTP API. */
export type Route = {
  readonly summary: string
  readonly params?: z.ZodObject
  readonly query?: z.ZodObject
  readonly body?: z.ZodType
  readonly status: 200 | 201 | 202
  readonly response: z.ZodType
  /** The same URL streams as server-sent events when the client accepts them. */
  readonly streams?: boolean
  /** Answers with lines of JSON, one by one. */
  readonly lines?: boolean
  /** Open to those who are not logged in: only what logs them in. */
  readonly open?: boolean
}

/** The body of every answer that is not a success. */
export const Problem = z.object({
  error: z.object({
    code: z.enum(Object.keys(failureCodes) as [keyof typeof failureCodes]),
    message: z.string(),
    hint: z.string().optional(),
    /** For `internal`: where the log has the rest. */
    id: z.string().optional(),
  }),
})
export type Problem = z.infer<typeof Problem>

export const Done = z.object({ ok: z.literal(true) })

export const session = { params: z.strictObject({ id: SessionId }) }

export const Cursor = z.coerce.number().int().min(0)

export const eventsPerPageMax = 1000
