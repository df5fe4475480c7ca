import { SessionId } from '@anchorhold/protocol/ids'
import { createRootRouteWithContext, createRoute, createRouter, lazyRouteComponent, notFound } from '@tanstack/react-router'
import { z } from 'zod'
import { daemon } from './daemon.ts'
import { openLog } from './live/apply.ts'
import type { House } from './live/house.ts'
import { sessionQuery } from './live/queries.ts'
import { Tab } from './session/tabs/tab.ts'
import { HomePage } from './sessions/HomePage.tsx'
import { Broken } from './shell/Broken.tsx'
import { Shell } from './shell/Shell.tsx'
import { Lost } from './shell/Lost.tsx'

/** What the list beside everything shows lies in the address, as do the event that a search led to and the view of a session. */
const Search = z.object({
  q: z.string().optional().catch(undefined),
  show: z.enum(['needs_you', 'working', 'archived']).optional().catch(undefined),
  at: z.coerce.number().int().positive().optional().catch(undefined),
  tab: Tab.optional().catch(undefined),
})

const root = createRootRouteWithContext<House>()({ component: Shell, notFoundComponent: Lost, validateSearch: Search })
const home = createRoute({ getParentRoute: () => root, path: '/', component: HomePage })
const fresh = createRoute({
  getParentRoute: () => root,
  path: '/new',
  component: lazyRouteComponent(() => import('./sessions/NewSession.tsx'), 'NewSession'),
})
const inbox = createRoute({
  getParentRoute: () => root,
  path: '/inbox',
  component: lazyRouteComponent(() => import('./requests/InboxPage.tsx'), 'InboxPage'),
})
const usage = createRoute({
  getParentRoute: () => root,
  path: '/usage',
  component: lazyRouteComponent(() => import('./usage/UsagePage.tsx'), 'UsagePage'),
})
const audit = createRoute({
  getParentRoute: () => root,
  path: '/audit',
  component: lazyRouteComponent(() => import('./audit/AuditPage.tsx'), 'AuditPage'),
})
const settings = createRoute({
  getParentRoute: () => root,
  path: '/settings',
  component: lazyRouteComponent(() => import('./settings/SettingsPage.tsx'), 'SettingsPage'),
})
const account = createRoute({
  getParentRoute: () => root,
  path: '/settings/account',
  component: lazyRouteComponent(() => import('./settings/AccountPage.tsx'), 'AccountPage'),
})
const providers = createRoute({
  getParentRoute: () => root,
  path: '/settings/providers',
  component: lazyRouteComponent(() => import('./settings/ProvidersPage.tsx'), 'ProvidersPage'),
})
const secrets = createRoute({
  getParentRoute: () => root,
  path: '/settings/secrets',
  component: lazyRouteComponent(() => import('./settings/SecretsPage.tsx'), 'SecretsPage'),
})
const policy = createRoute({
  getParentRoute: () => root,
  path: '/settings/policy',
  component: lazyRouteComponent(() => import('./settings/PolicyPage.tsx'), 'PolicyPage'),
})
const rungs = createRoute({
  getParentRoute: () => root,
  path: '/settings/rungs',
  component: lazyRouteComponent(() => import('./settings/RungsPage.tsx'), 'RungsPage'),
})
const people = createRoute({
  getParentRoute: () => root,
  path: '/settings/people',
  component: lazyRouteComponent(() => import('./settings/PeoplePage.tsx'), 'PeoplePage'),
})
const budgets = createRoute({
  getParentRoute: () => root,
  path: '/settings/budgets',
  component: lazyRouteComponent(() => import('./settings/BudgetsPage.tsx'), 'BudgetsPage'),
})
const notifications = createRoute({
  getParentRoute: () => root,
  path: '/settings/notifications',
  component: lazyRouteComponent(() => import('./settings/NotificationsPage.tsx'), 'NotificationsPage'),
})
const session = createRoute({
  getParentRoute: () => root,
  path: '/sessions/$id',
  params: {
    parse({ id }) {
      const known = SessionId.safeParse(id)
      if (!known.success) throw notFound()
      return { id: known.data }
    },
  },
  // Asked for while the page's code is still coming; what goes wrong is shown by the page.
  loader({ params, context: { cache } }) {
    void cache.prefetchQuery(sessionQuery(params.id))
    void openLog({ cache, daemon }, params.id).catch(() => {})
    void import('./ui/RichText.tsx')
  },
  component: lazyRouteComponent(() => import('./session/SessionPage.tsx'), 'SessionPage'),
  notFoundComponent: Lost,
})

export function makeRouter(house: House) {
  return createRouter({
    routeTree: root.addChildren([
      home,
      fresh,
      inbox,
      usage,
      audit,
      settings,
      account,
      providers,
      secrets,
      policy,
      rungs,
      people,
      budgets,
      notifications,
      session,
    ]),
    context: house,
    defaultPreload: 'intent',
    defaultPreloadStaleTime: 0,
    scrollRestoration: false,
    defaultErrorComponent: Broken,
  })
}

declare module '@tanstack/react-router' {
  interface Register {
    router: ReturnType<typeof makeRouter>
  }
}
