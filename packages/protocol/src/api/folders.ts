import { z } from 'zod'
import type { Route } from './route.ts'

export const foldersMax = 500

export const HostFolder = z.object({
  path: z.string(),
  name: z.string(),
  repository: z.boolean().describe('Whether it is the top of a git repository'),
  usable: z.boolean().describe('Whether a session may work in it, as far as its path tells'),
})
export type HostFolder = z.infer<typeof HostFolder>

export const HostFolders = z.object({
  path: z.string().nullable(),
  /** What lies above it; null at the roots. */
  above: z.string().nullable(),
  folders: z.array(HostFolder).max(foldersMax),
  more: z.boolean(),
  recent: z.array(z.string()).describe('Folders that sessions were last made for'),
})
export type HostFolders = z.infer<typeof HostFolders>

export const foldersRoutes = {
  listFolders: {
    summary: 'Folders of the host that a session may be made for: the roots, or what lies in one of them',
    query: z.strictObject({ path: z.string().startsWith('/').max(4096).optional() }),
    status: 200,
    response: HostFolders,
  },
} as const satisfies Record<string, Route>
