import { accessRoutes } from './access.ts'
import type { ApiName } from './addresses.ts'
import { cachesRoutes } from './caches.ts'
import { daemonRoutes } from './daemon.ts'
import { foldersRoutes } from './folders.ts'
import { loginRoutes } from './login.ts'
import { moneyRoutes } from './money.ts'
import { policyRoutes } from './policy.ts'
import { policyFilesRoutes } from './policy-files.ts'
import { providersRoutes } from './providers.ts'
import { pushRoutes } from './push.ts'
import { recordsRoutes } from './records.ts'
import { requestsRoutes } from './requests.ts'
import type { Route } from './route.ts'
import { secretsRoutes } from './secrets.ts'
import { sessionsRoutes } from './sessions.ts'
import { workspaceRoutes } from './workspace.ts'

/** Every call of the HTTP API. The door, the client's types and the OpenAPI document are all made from it. */
export const api = {
  ...sessionsRoutes,
  ...recordsRoutes,
  ...workspaceRoutes,
  ...foldersRoutes,
  ...requestsRoutes,
  ...moneyRoutes,
  ...providersRoutes,
  ...secretsRoutes,
  ...accessRoutes,
  ...loginRoutes,
  ...policyRoutes,
  ...policyFilesRoutes,
  ...pushRoutes,
  ...cachesRoutes,
  ...daemonRoutes,
} as const satisfies Record<ApiName, Route>

export type Api = typeof api
