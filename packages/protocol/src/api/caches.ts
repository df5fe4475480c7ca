import { z } from 'zod'
import { type Route } from './route.ts'

const CacheId = z.string().regex(/^[0-9a-f]{16}$/, 'this must be the id of a cache, as anchorhold cache list shows it')

/** Downloads that sessions of one person in one folder share. */
export const CacheView = z.object({
  id: CacheId,
  owner: z.string().describe('Whose sessions share it, by name'),
  workspace: z.string().describe('The folder that they work in'),
  size_bytes: z.int(),
  used_at: z.int().describe('When a session last began with it'),
  in_use: z.boolean(),
})
export type CacheView = z.infer<typeof CacheView>

export const cachesRoutes = {
  listCaches: {
    summary: 'Downloads that sessions of one folder share',
    status: 200,
    response: z.object({ caches: z.array(CacheView) }),
  },
  clearCaches: {
    summary: 'Clear one of them, or all that no session works with',
    body: z.strictObject({ id: CacheId.optional() }).optional(),
    status: 200,
    response: z.object({ cleared: z.int() }),
  },
} as const satisfies Record<string, Route>
