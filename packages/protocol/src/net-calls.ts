import { z } from 'zod'

/** What an agent's own tools ask of a net window, each on a path of the window's own. Whoever may use the window may ask: nothing that
 *  is sent here is an answer, a grant or a rule. */
export const accessPath = '/anchorhold/access'
export const fetchPath = '/anchorhold/fetch'

/** The agent's tools that act by these, under the names that an agent calls them by. Where they lead is judged at the window. */
export const netToolServer = 'anchorhold'
export const netTools = { access: 'request_access', fetch: 'web_fetch' } as const
const calledBy = Object.values(netTools).map((name) => `mcp__${netToolServer}__${name}`)
export const isNetTool = (tool: string): boolean => calledBy.includes(tool)

/** Asks for a call before it is made. `why` is for the person who decides, and is no part of what is allowed. */
export const AccessAsk = z.strictObject({
  host: z.string().min(1).max(300).describe('The host, as a name or an address, without a scheme'),
  port: z.int().min(1).max(65_535).default(443),
  method: z
    .string()
    .regex(/^[A-Z]{1,20}$/)
    .optional()
    .describe('Only where the window sees it: plain HTTP, or TLS that it opens'),
  path: z.string().max(8192).optional().describe('Likewise'),
  why: z.string().min(1).max(1000).describe('What you need it for, for the person who decides'),
})
export type AccessAsk = z.infer<typeof AccessAsk>

/** `not yet`: nobody has answered; the request stays open. */
export const AccessAnswer = z.object({ answer: z.enum(['allowed', 'denied', 'not yet']), why: z.string() })
export type AccessAnswer = z.infer<typeof AccessAnswer>

export const FetchAsk = z.strictObject({ url: z.string().min(1).max(8192) })
export type FetchAsk = z.infer<typeof FetchAsk>

/** `url` is the last one that was asked for, after redirects. */
export const FetchAnswer = z.discriminatedUnion('answer', [
  z.object({
    answer: z.literal('page'),
    url: z.string(),
    status: z.int(),
    /** As the server says it. */
    type: z.string(),
    body: z.base64(),
    /** There was more than is passed on. */
    truncated: z.boolean(),
  }),
  z.object({ answer: z.literal('blocked'), url: z.string(), why: z.string(), how_to_ask: z.string() }),
  z.object({ answer: z.literal('failed'), url: z.string(), why: z.string() }),
])
export type FetchAnswer = z.infer<typeof FetchAnswer>
