import { z } from 'zod'
import { AuditKind } from '../audit.ts'
import { Event } from '../events.ts'
import { SigningKey } from '../heads.ts'
import { HouseEvent } from '../house.ts'
import { SessionId } from '../ids.ts'
import { Network, Session } from '../sessions.ts'
import { Cursor, eventsPerPageMax, type Route, session } from './route.ts'

const EventPage = z.object({
  events: z.array(Event),
  /** Whether there is more in the direction that was asked for. */
  more: z.boolean(),
})

const EventRange = z.strictObject({
  after: Cursor.optional().describe('Only events with a greater number, oldest first'),
  before: Cursor.optional().describe('Only events with a smaller number, the newest of them, oldest first'),
  limit: z.coerce.number().int().min(1).max(eventsPerPageMax).optional(),
})

/** What went through a session's net window, by host. */
export const NetHost = z.object({
  host: z.string().nullable().describe('None for what named no host, or for the rest of more hosts than are told apart'),
  port: z.int().nullable(),
  connections: z.int(),
  bytes_out: z.int(),
  bytes_in: z.int(),
  blocked: z.int(),
  why: z.string().nullable().describe('Why the last call was blocked'),
  secrets: z.array(z.object({ name: z.string(), count: z.int() })),
  last_at: z.int(),
})
export type NetHost = z.infer<typeof NetHost>

const Since = z.strictObject({ since: z.coerce.number().int().min(0).optional().describe('Only what went through since then') })

export const SearchHit = z.object({
  session: SessionId,
  session_name: z.string(),
  seq: z.int(),
  at: z.int(),
  type: z.string(),
  /** The place of the hit, with the words found between « and ». */
  snippet: z.string(),
})
export type SearchHit = z.infer<typeof SearchHit>

export const SearchAnswer = z.object({
  hits: z.array(SearchHit),
  sessions: z.array(Session).describe('Sessions with this name, or whose folder or branch is'),
  more: z.boolean().describe('Whether there are hits beyond the limit'),
  deeper: z.array(SessionId).describe('Sessions that have more hits than one may have here'),
})
export type SearchAnswer = z.infer<typeof SearchAnswer>

export const recordsRoutes = {
  sessionNet: {
    summary: 'What left a session and what was blocked, by host',
    ...session,
    query: Since,
    status: 200,
    response: z.object({ network: Network, hosts: z.array(NetHost) }),
  },
  net: {
    summary: 'The same of all sessions that you see',
    query: Since,
    status: 200,
    response: z.object({ hosts: z.array(NetHost) }),
  },
  sessionEvents: {
    summary: 'Events of a session by number; as a stream, also what is being said right now',
    ...session,
    query: EventRange,
    status: 200,
    response: EventPage,
    streams: true,
  },
  events: {
    summary: 'Events of all sessions by position',
    query: EventRange,
    status: 200,
    response: EventPage,
    streams: true,
  },
  search: {
    summary: 'Full-text search over all that was said, done, asked and refused, and over what sessions are called',
    query: z.strictObject({
      q: z.string().min(1).max(500),
      session: SessionId.optional(),
      limit: z.coerce.number().int().min(1).max(500).optional(),
      per_session: z.coerce.number().int().min(1).max(500).optional().describe('How many hits one session may have'),
    }),
    status: 200,
    response: SearchAnswer,
  },
  exportSession: {
    summary: "A session's whole log with its hash chain and a signed head, as lines of JSON",
    ...session,
    status: 200,
    response: z.unknown(),
    lines: true,
  },
  exportAll: {
    summary: 'Every log, and last that of the house',
    status: 200,
    response: z.unknown(),
    lines: true,
  },
  audit: {
    summary: 'Decisions, answers, grants, money, secrets: who did what, the newest first',
    query: z.strictObject({
      session: SessionId.optional(),
      kind: AuditKind.optional(),
      since: z.coerce.number().int().min(0).optional(),
      before: Cursor.optional().describe('Where the page before this one ended'),
    }),
    status: 200,
    response: z.object({ entries: z.array(Event), before: z.int().nullable() }),
  },
  houseEvents: {
    summary: "What happened in the house and is no session's: people, tokens, logins, providers, policy, panic",
    query: z.strictObject({ before: Cursor.optional(), limit: z.coerce.number().int().min(1).max(eventsPerPageMax).optional() }),
    status: 200,
    response: z.object({ events: z.array(HouseEvent), more: z.boolean() }),
  },
  signingKey: {
    summary: 'The key that signs the heads of exports',
    status: 200,
    response: SigningKey,
  },
} as const satisfies Record<string, Route>
