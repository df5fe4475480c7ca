import type { Actor, Permission } from '@anchorhold/core/actors'
import { spendingCsv } from '@anchorhold/core/spending-csv'
import type { SessionId, TokenId, UserId } from '@anchorhold/protocol/ids'
import type { IncomingHttpHeaders } from 'node:http'
import * as access from '../../app/people/access.ts'
import * as account from '../../app/people/account.ts'
import * as audit from '../../app/house/audit.ts'
import { createSession } from '../../app/sessions/create-session.ts'
import { forkSession } from '../../app/sessions/fork-session.ts'
import { listFolders } from '../../app/workspace/host-folders.ts'
import * as login from '../../app/people/login.ts'
import * as ledger from '../../app/money/ledger.ts'
import { archive, purge } from '../../app/sessions/archive.ts'
import * as lifecycle from '../../app/sessions/lifecycle.ts'
import { liftPanic, panic } from '../../app/house/panic.ts'
import type { Parts } from '../../app/parts.ts'
import * as people from '../../app/people/people.ts'
import * as policyFiles from '../../app/policy/policy-files.ts'
import { backtestPolicy, proposePolicy, requestRule } from '../../app/policy/policy-history.ts'
import * as policy from '../../app/policy/policy-verbs.ts'
import { dropPrompt } from '../../app/prompts/drop.ts'
import { prompt } from '../../app/prompts/prompt.ts'
import * as providers from '../../app/money/providers.ts'
import * as push from '../../app/push/push.ts'
import { openReach, reached } from '../../app/people/reach.ts'
import * as secrets from '../../app/secrets/secrets.ts'
import * as read from '../../app/sessions/read.ts'
import * as requests from '../../app/requests/requests.ts'
import { doctor, health, mayShutDown, status } from '../../app/house/status.ts'
import * as workspace from '../../app/workspace/workspace.ts'
import { clearCaches, listCaches } from '../../app/workspace/caches.ts'
import { listWorkers } from '../../app/keepers/workers.ts'
import type { Calls } from './api.ts'
import { loginCookie } from './guard.ts'
import { lineStream } from './lines.ts'
import { attachment, picture, reply } from './reply.ts'
import { eventStream, openEnd } from './sse.ts'

const done = { ok: true } as const
const perPage = 100

export type CallsOptions = {
  readonly parts: Parts
  readonly about: { readonly version: string; readonly startedAt: number; url(): string }
  readonly shutdown: (options: { readonly all: boolean }) => Promise<{ readonly left_running: number }>
}

/** Each call of the contract, as one verb. */
export function calls({ parts, about, shutdown }: CallsOptions): Calls {
  const range = ({
    after,
    before,
    limit,
  }: {
    after?: number | undefined
    before?: number | undefined
    limit?: number | undefined
  }) => ({
    after: after ?? null,
    before: before ?? null,
    limit: limit ?? perPage,
  })
  const wantsStream = ({ accept = '' }: IncomingHttpHeaders) => /\btext\/event-stream\b/.test(accept)
  /** A browser that reconnects says which event it saw last. */
  const startOf = ({ 'last-event-id': seen }: IncomingHttpHeaders, after: number | undefined) =>
    typeof seen === 'string' && /^\d{1,15}$/.test(seen) ? Number(seen) : (after ?? 0)
  type Watcher = { readonly actor: Actor; readonly token: TokenId | null; readonly signal: AbortSignal }
  /** A stream ends when its token, its user or the session is no longer what it was opened with. */
  const watch = ({ actor, token, signal }: Watcher, permission: Permission, session?: SessionId, all: UserId | null = null) =>
    parts.watches.open(() => token !== null && access.stillMay(parts, { actor, token }, permission, session), signal, all)
  const secure = () => about.url().startsWith('https:')
  const callerOf = ({ headers, address }: { readonly headers: IncomingHttpHeaders; readonly address: string | null }) => ({
    address,
    agent: headers['user-agent'] ?? '',
    // What is logged in here is a browser.
    door: 'web',
  })
  const letIn = (secret: string) => {
    const cookie = loginCookie(secret, { maxAgeSeconds: access.loginMs / 1000, secure: secure() })
    return reply({ value: { ...done, second: null }, headers: { 'set-cookie': cookie } })
  }
  const entered = (step: login.Step) => (step.secret === null ? { ...done, second: step.ticket } : letIn(step.secret))

  return {
    createSession: ({ actor, body }) => createSession(parts, actor, body),
    listSessions: ({ actor, query }) =>
      read.listSessions(parts, actor, {
        archived: query.archived === 'true',
        state: query.state ?? null,
        needing: query.needs_you === 'true',
        before: query.before ?? null,
        limit: query.limit ?? perPage,
      }),
    getSession: ({ actor, params }) => read.getSession(parts, actor, params.id),
    changeSession: ({ actor, params, body }) => lifecycle.change(parts, actor, params.id, body),
    deleteSession: ({ actor, params }) => archive(parts, actor, params.id),
    async purgeSession({ actor, params, body }) {
      await purge(parts, actor, params.id, body.confirm)
      return done
    },
    prompt: ({ actor, params, body }) => prompt(parts, actor, params.id, body),
    dropPrompt: ({ actor, params }) => dropPrompt(parts, actor, params.id, params.prompt),
    interrupt: ({ actor, params, body }) =>
      lifecycle.interrupt(parts, actor, params.id, { dropQueued: body?.drop_queued ?? false }),
    warm: ({ actor, params }) => lifecycle.warm(parts, actor, params.id),
    pause: ({ actor, params }) => lifecycle.pause(parts, actor, params.id),
    resume: ({ actor, params }) => lifecycle.resume(parts, actor, params.id),
    stop: ({ actor, params }) => lifecycle.stop(parts, actor, params.id),
    start: ({ actor, params }) => lifecycle.start(parts, actor, params.id),
    archive: ({ actor, params }) => archive(parts, actor, params.id),
    fork: ({ actor, params, body }) => forkSession(parts, actor, params.id, body ?? {}),
    sessionEvents({ actor, token, params, query, headers, signal }) {
      if (!wantsStream(headers)) return read.sessionEvents(parts, actor, params.id, range(query))
      const end = watch({ actor, token, signal }, 'session.read', params.id)
      if (actor.user !== null) parts.presence.follow(actor.user, params.id, end.signal)
      return eventStream(
        read.watchSession(parts, actor, params.id, startOf(headers, query.after), end.signal),
        ({ seq }) => seq,
        end,
      )
    },
    events({ actor, token, query, headers, signal }) {
      if (!wantsStream(headers)) return read.allEvents(parts, actor, range(query))
      const end = watch({ actor, token, signal }, 'house.read', undefined, actor.user)
      return eventStream(read.watchAll(parts, actor, startOf(headers, query.after), end.signal), ({ pos }) => pos, end)
    },
    listRequests: ({ actor, query }) => ({
      requests: [...requests.listRequests(parts, actor, { openOnly: query.all !== 'true', session: query.session ?? null })],
    }),
    getRequest: ({ actor, params }) => requests.getRequest(parts, actor, params.id),
    requestRule: ({ actor, params }) => requestRule(parts, actor, params.id),
    answerRequest: ({ actor, params, body }) => requests.answerRequest(parts, actor, params.id, body),
    sessionNet: ({ actor, params, query }) => read.sessionNet(parts, actor, params.id, query.since ?? 0),
    net: ({ actor, query }) => ({ hosts: [...read.net(parts, actor, query.since ?? 0)] }),
    turnCosts: ({ actor, params }) => ({ turns: [...read.turnCosts(parts, actor, params.id)] }),
    changes: ({ actor, params, query }) => workspace.changes(parts, actor, params.id, query.against ?? 'head'),
    listFiles: ({ actor, params, query }) => workspace.listFiles(parts, actor, params.id, query.path),
    readFile: ({ actor, params, query }) => workspace.readFile(parts, actor, params.id, query.path),
    async downloadFile({ actor, params, query }) {
      return attachment(query.path, await workspace.downloadFile(parts, actor, params.id, query.path))
    },
    async showPicture({ actor, params, query }) {
      return picture(await workspace.showPicture(parts, actor, params.id, query.path))
    },
    uploadFile: ({ actor, params, body }) => workspace.uploadFile(parts, actor, params.id, body),
    listFolders: ({ actor, query }) => listFolders(parts, actor, query.path ?? null),
    completions: ({ actor, params }) => workspace.completions(parts, actor, params.id),
    search({ actor, query: { q, session = null, limit = 20, per_session: perSession = null } }) {
      const { hits, sessions, more, deeper } = read.search(parts, actor, { q, session, limit, perSession })
      return { hits: [...hits], sessions: [...sessions], more, deeper: [...deeper] }
    },
    usage: ({ actor, query }) => read.usage(parts, actor, query.session ?? null),
    spending({ actor, query, headers }) {
      const { by, since = null, session = null } = query
      const rows = read.spending(parts, actor, { by, since, session })
      if (!/\btext\/csv\b/.test(headers.accept ?? '')) return { spending: [...rows] }
      return reply({ text: spendingCsv(by, rows), headers: { 'content-type': 'text/csv; charset=utf-8' } })
    },
    listBudgets: ({ actor }) => ({ budgets: [...ledger.listBudgets(parts, actor)] }),
    setBudget: async ({ actor, body }) => ({ budgets: [...(await ledger.setBudget(parts, actor, body))] }),
    workers: async ({ actor }) => ({ workers: [...(await listWorkers(parts, actor))] }),
    listCaches: async ({ actor }) => ({ caches: [...(await listCaches(parts, actor))] }),
    clearCaches: ({ actor, body }) => clearCaches(parts, actor, body?.id ?? null),
    listSecrets: ({ actor }) => secrets.listSecrets(parts, actor),
    putSecret: ({ actor, params, body }) => secrets.putSecret(parts, actor, params.name, body),
    async deleteSecret({ actor, params }) {
      await secrets.deleteSecret(parts, actor, params.name)
      return done
    },
    rotateKey: ({ actor }) => secrets.rotateKey(parts, actor),
    listProviders: ({ actor }) => ({ providers: [...providers.listProviders(parts, actor)] }),
    putProvider: ({ actor, params, body }) => providers.putProvider(parts, actor, params.name, body),
    useProvider: ({ actor, params }) => providers.useProvider(parts, actor, params.name),
    testProvider: ({ actor, params }) => providers.testProvider(parts, actor, params.name),
    deleteProvider({ actor, params }) {
      providers.deleteProvider(parts, actor, params.name)
      return done
    },
    listTokens: ({ actor }) => ({ tokens: [...access.listTokens(parts, actor)] }),
    createToken: ({ actor, body }) => access.createToken(parts, actor, body),
    revokeToken({ actor, params }) {
      access.revokeToken(parts, actor, params.id)
      return done
    },
    createLoginLink: ({ actor }) => access.createLoginLink(parts, actor, about.url()),
    login({ body, ...asked }) {
      const { secret } = access.logIn(parts, body.secret, callerOf(asked))
      return letIn(secret)
    },
    loginWays: () => login.ways(parts),
    loginByPassword: async ({ body, ...asked }) => entered(await login.byPassword(parts, body, callerOf(asked))),
    loginByCode: ({ body, ...asked }) => entered(login.byCode(parts, body, callerOf(asked))),
    askPasskey: (asked) => login.askPasskey(parts, asked.headers.origin, callerOf(asked)),
    loginByPasskey: async ({ body, ...asked }) => entered(await login.byPasskey(parts, body, callerOf(asked))),
    account: ({ actor, token }) => account.account(parts, actor, token),
    async proveByPassword({ actor, token, body, ...asked }) {
      await login.proveByPassword(parts, { actor, token }, body, callerOf(asked))
      return done
    },
    async proveByPasskey({ actor, token, body, ...asked }) {
      await login.proveByPasskey(parts, { actor, token }, body, callerOf(asked))
      return done
    },
    async setPassword({ actor, params, body }) {
      await account.setPassword(parts, actor, params.name, body.password)
      return done
    },
    removePassword({ actor }) {
      account.removePassword(parts, actor)
      return done
    },
    offerPasskey: ({ actor, headers }) => account.offerPasskey(parts, actor, headers.origin),
    addPasskey: ({ actor, body, headers }) => account.addPasskey(parts, actor, body, headers['user-agent'] ?? ''),
    removePasskey({ actor, params }) {
      account.removePasskey(parts, actor, params.id)
      return done
    },
    offerTotp: ({ actor }) => account.offerTotp(parts, actor, new URL(about.url()).hostname),
    confirmTotp: ({ actor, body }) => account.confirmTotp(parts, actor, body),
    removeTotp({ actor }) {
      account.removeTotp(parts, actor)
      return done
    },
    revokeOthers: ({ actor, token, body }) => ({
      revoked: access.revokeOthers(parts, actor, token, { tokens: body?.tokens ?? false }),
    }),
    logout({ actor, token }) {
      if (token !== null) access.logOut(parts, actor, token)
      return reply({ value: done, headers: { 'set-cookie': loginCookie('', { maxAgeSeconds: 0, secure: secure() }) } })
    },
    openReach: ({ actor }) => openReach(parts, actor),
    reach({ params, address, headers, signal }) {
      const found = reached(parts, params.nonce, { address, forwarded: headers['x-forwarded-for'] !== undefined })
      return wantsStream(headers) ? openEnd(JSON.stringify(found), signal) : found
    },
    status: ({ actor }) => status(parts, actor, { ...about, url: about.url() }),
    health: ({ actor }) => health(parts, actor),
    doctor: ({ actor }) => doctor(parts, actor),
    panic: async ({ actor }) => {
      const { left, ...stopped } = await panic(parts, actor)
      return { ...stopped, left: [...left] }
    },
    liftPanic: ({ actor }) => liftPanic(parts, actor),
    shutdown({ actor, body }) {
      const all = body?.all ?? false
      mayShutDown(parts, actor, { all })
      return shutdown({ all })
    },
    listUsers: ({ actor }) => ({ users: [...people.listUsers(parts, actor)] }),
    addUser: ({ actor, body }) => people.addUser(parts, actor, body),
    changeUser: ({ actor, params, body }) => people.changeUser(parts, actor, params.name, body),
    removeUser({ actor, params }) {
      people.removeUser(parts, actor, params.name)
      return done
    },
    inviteUser: ({ actor, params }) => people.inviteUser(parts, actor, params.name, about.url()),
    listShares: ({ actor, params }) => ({ shares: [...people.listShares(parts, actor, params.id)] }),
    shareSession: ({ actor, params, body }) => ({
      shares: [...people.shareSession(parts, actor, params.id, { user: params.name, access: body.access })],
    }),
    unshareSession: ({ actor, params }) => ({ shares: [...people.unshareSession(parts, actor, params.id, params.name)] }),
    async exportSession({ actor, token, params, signal }) {
      const lines = await audit.exportSession(parts, actor, params.id)
      return lineStream(lines, watch({ actor, token, signal }, 'session.read', params.id), parts.log)
    },
    async exportAll({ actor, token, signal }) {
      const lines = await audit.exportAll(parts, actor)
      return lineStream(lines, watch({ actor, token, signal }, 'audit.all'), parts.log)
    },
    audit({ actor, query }) {
      const { session, kind, since, before } = query
      const found = audit.audit(parts, actor, {
        session: session ?? null,
        kind: kind ?? null,
        since: since ?? 0,
        before: before ?? null,
      })
      return { ...found, entries: [...found.entries] }
    },
    houseEvents({ actor, query }) {
      const found = audit.houseEvents(parts, actor, { before: query.before ?? null, limit: query.limit ?? perPage })
      return { ...found, events: [...found.events] }
    },
    signingKey: ({ actor }) => audit.signingKey(parts, actor),
    pushKey: ({ actor }) => push.pushKey(parts, actor),
    listPushDevices: ({ actor, token }) => ({ devices: [...push.listPushDevices(parts, actor, token)] }),
    addPushDevice: ({ actor, token, body }) => push.addPushDevice(parts, actor, token, body),
    removePushDevice({ actor, params }) {
      push.removePushDevice(parts, actor, params.id)
      return done
    },
    watching({ actor, params }) {
      push.watching(parts, actor, params.id)
      return done
    },
    notWatching({ actor, params }) {
      push.notWatching(parts, actor, params.id)
      return done
    },
    showPolicy: ({ actor, query }) => policy.showPolicy(parts, actor, query.session ?? null),
    reloadPolicy: ({ actor }) => policy.reloadPolicy(parts, actor),
    checkPolicy: ({ actor, body }) => policy.checkPolicy(parts, actor, body),
    readPolicyFile: ({ actor, query }) => policyFiles.readPolicyFile(parts, actor, query.name ?? null),
    writePolicyFile: ({ actor, body }) => policyFiles.writePolicyFile(parts, actor, body),
    explainAction: ({ actor, body }) => policy.explainAction(parts, actor, body),
    testPolicy: ({ actor, body }) => policy.testPolicy(parts, actor, body),
    proposePolicy: ({ actor, body }) => proposePolicy(parts, actor, body.sessions),
    backtestPolicy: ({ actor, body }) => backtestPolicy(parts, actor, body),
    whoAmI: ({ actor }) => access.whoAmI(parts, actor),
  }
}
