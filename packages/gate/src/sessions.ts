import { access } from 'node:fs/promises'
import { setImmediate as immediate } from 'node:timers/promises'
import { Failure } from '@anchorhold/protocol/failures'
import type { OpenWindows } from '@anchorhold/protocol/gate-commands'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { Told } from '@anchorhold/protocol/authority'
import type { Provider } from '@anchorhold/protocol/providers'
import { type SessionAuthority, sessionAuthority } from './authority.ts'
import { inTurn } from './in-turn.ts'
import type { Account, Money } from './money/account.ts'
import type { Books } from './money/books.ts'
import { type KeptLease, type ServedOn, servedOn } from './money/leases.ts'
import type { Command, Verbs } from './verbs.ts'
import type { SessionWindow, WindowKind } from './windows/window.ts'

/** The sessions that are served: each one's terms, money and windows. */
export type Sessions = {
  readonly verbs: Verbs<'open' | 'close' | 'panic' | 'pause' | 'resume' | 'policy' | 'budget' | 'ledger' | 'price' | 'answer'>
  /** Those that are served, and those that a gate before this one kept. */
  all(): SessionId[]
  /** Serves what gates before this one have kept. */
  reopenKept(): Promise<void>
  /** Calls go on that nodes above several sessions hold by now. */
  retryAll(): void
  /** Puts every sealed credential that sessions are served on under the new key. */
  sealAnew(anew: (box: string) => string): Promise<void>
  /** Resolves when no call is under way any more. */
  quiet(): Promise<void>
  /** Ends every window. The next gate serves the same sessions. */
  close(): Promise<void>
}
export type SessionsParts = {
  readonly books: Books
  readonly kinds: readonly WindowKind[]
  /** The names of credentials that are at hand as variables. */
  readonly env: Readonly<Record<string, string | undefined>>
  readonly now: () => number
  /** Somebody waits for what has just reached the disk. */
  readonly tell: () => void
  readonly say: (message: string) => void
}

/** A session that is served. */
type Served = {
  readonly windows: readonly SessionWindow[]
  readonly account: Account
  readonly authority: SessionAuthority
  terms: ServedOn
}
type OpenCommand = Extract<Command, { do: 'open' }>

export function sessionsServed({ books, kinds, env, now, tell, say }: SessionsParts): Sessions {
  const served = new Map<SessionId, Promise<Served>>()
  const closing = new Map<SessionId, Promise<void>>()
  /** Of all sessions, also those that are being opened. */
  const standing = new Set<SessionWindow>()
  /** What is told of one session is done in the order in which it was told: an `open` that waits for a window to close must not
   *  bring back what was known before an answer. */
  const afterOthers = inTurn()
  const all = () => [...new Set([...served.keys(), ...books.kept.keys()])]
  const retryAll = () => {
    for (const window of standing) window.retry()
  }

  /** Opens a session's windows. Where a lease is to be kept for that, it is on the disk before anybody can call. */
  async function serve(session: SessionId, terms: ServedOn, money: Money, { keep }: { keep: boolean }): Promise<Served> {
    const account = books.open(session, money)
    let saving = false
    const authority = sessionAuthority({
      terms: terms.authority,
      heardTo: money.spent_to,
      before: books.asks(session),
      account,
      async flush() {
        await books.flush()
        tell()
      },
      now,
      onChange() {
        if (saving) return
        saving = true
        // What changes together is kept together. It is in the outbox already: this is for when that is trimmed.
        void immediate().then(() => {
          saving = false
          return account.save().catch(() => {})
        })
      },
    })
    const windows: SessionWindow[] = []
    const one: Served = { windows, account, authority, terms: withAuthority(authority, terms) }
    if (keep) await account.save(one.terms)
    const settling = () => windows.forEach((window) => window.flush())
    try {
      for (const kind of kinds) {
        const window = await kind.open({ session, terms: () => one.terms, account, authority, note: account.note, settling })
        windows.push(window)
        standing.add(window)
        await window.fit()
      }
    } catch (error) {
      await end(windows)
      throw error
    }
    return one
  }
  async function end(windows: readonly SessionWindow[]): Promise<void> {
    for (const window of windows) standing.delete(window)
    await Promise.all(windows.map((window) => window.close()))
  }
  const stand = async ({ windows }: Served, terms: ServedOn) =>
    (await Promise.all(windows.map((window) => window.stands(terms)))).every(Boolean)
  function changed(windows: Iterable<SessionWindow>, what: 'terms' | 'rules' | 'money'): void {
    for (const window of windows) window.changed(what)
  }

  /** Changes what a session is served on, and keeps it that way. */
  async function change(one: Served, terms: ServedOn): Promise<void> {
    one.terms = withAuthority(one.authority, terms)
    changed(one.windows, 'terms')
    await one.account.save(one.terms)
  }

  async function open(command: OpenCommand): Promise<OpenWindows> {
    const { session, budget_nanos, spent_nanos, spent_to, ledger, agent_cap_nanos } = command
    const terms = servedOn(command)
    // Made while what has to be on the disk gets there.
    const certificate = command.certificate ? certificateOf(session, terms) : Promise.resolve(null)
    certificate.catch(() => {})
    const nodes = ledger.nodes.map(({ node }) => node)
    const closed = command.closed && budget_nanos !== null
    const simulated = isPlay(terms.provider)
    const money = { budget_nanos, spent_nanos, spent_to, closed, nodes, agent_cap_nanos, simulated }
    for (;;) {
      // A window that is on its way out would take the new one's socket along.
      await closing.get(session)
      const found = served.get(session)
      if (found === undefined) break
      const one = await found
      if (await stand(one, terms)) {
        one.account.update(money)
        one.authority.update(command.authority, spent_to)
        await change(one, terms)
        for (const window of one.windows) await window.fit()
        for (const window of one.windows) window.retry()
        return { authority: await certificate }
      }
      // Nobody finds it any more: its folder was made anew while this gate opened what it had found in its leases.
      if (served.get(session) === found) await close(session)
    }
    // A session's own nodes went with its windows, where those were closed after this was told.
    const gone = ledger.nodes.filter(({ node }) => books.node(simulated, node) === undefined)
    if (gone.length > 0) books.tell({ ...ledger, simulated, nodes: gone })
    const opening = serve(session, terms, money, { keep: true })
    served.set(session, opening)
    try {
      await opening
      return { authority: await certificate }
    } catch (cause) {
      await close(session)
      if (cause instanceof Failure) throw cause
      throw new Failure('gate_unavailable', `Cannot open the windows of session "${session}" in "${terms.folder}"`, { cause })
    }
  }
  async function certificateOf(session: SessionId, terms: ServedOn): Promise<string | null> {
    for (const kind of kinds) {
      const certificate = kind.certificate?.(session, terms) ?? null
      if (certificate !== null) return certificate
    }
    return null
  }

  /** Serves a session as a gate before this one did. */
  async function reopen(lease: KeptLease): Promise<void> {
    // Without its variable nobody could be served: the daemon brings a gate that has it, and agents try until then.
    if (lacks(lease.provider, env)) return
    if (!books.knows(lease)) {
      say(`Session "${lease.session}" waits for the daemon: nothing is kept of the nodes above it`)
      return
    }
    try {
      await access(lease.folder)
    } catch {
      return books.close(lease.session)
    }
    const opening = serve(lease.session, lease, { ...lease, simulated: isPlay(lease.provider) }, { keep: false })
    served.set(lease.session, opening)
    try {
      await opening
    } catch (error) {
      say(
        `Cannot open the windows of session "${lease.session}" again: ${error instanceof Error ? error.message : String(error)}`,
      )
      await close(lease.session)
    }
  }

  /** Ends the session's windows; whoever opens them again waits for that, and for what has to happen with it. */
  function shut(session: SessionId, and: Promise<void> = Promise.resolve()): Promise<void> {
    const one = served.get(session)
    served.delete(session)
    const ended = one?.then(
      ({ windows }) => end(windows),
      () => {},
    )
    const before = closing.get(session)
    // Whoever closes it is told where that fails; whoever opens it next waits for all of it, and does not fail of it as well.
    const over: Promise<void> = Promise.allSettled([before, ended, and]).then(() => {
      if (closing.get(session) === over) closing.delete(session)
    })
    closing.set(session, over)
    return Promise.all([before, ended, and]).then(() => {})
  }
  /** Nobody is served there any more, now and after a restart. */
  const close = (session: SessionId) => shut(session, books.close(session))

  async function answer({
    session,
    request,
    budget_nanos,
    raises,
    ...answered
  }: Extract<Command, { do: 'answer' }>): Promise<Told> {
    if (books.asks(session).told.has(request)) return { told: true }
    const one = await served.get(session)?.catch(() => undefined)
    if (one === undefined) return { told: false }
    const { account, authority, windows } = one
    // The money first: whoever waits goes on with it.
    if (raises.length > 0) books.raise(isPlay(one.terms.provider), raises)
    if (answered.answer.decision === 'allow' && budget_nanos !== undefined && budget_nanos !== account.lease.capNanos) {
      account.recap(budget_nanos)
      changed(windows, 'money')
    }
    const told = await authority.answer({ request, ...answered })
    await account.save()
    if (raises.length > 0) retryAll()
    return told
  }

  async function servedOf(session: SessionId): Promise<Served> {
    const one = await served.get(session)
    if (one === undefined) throw new Failure('not_found', `Session "${session}" has no open windows`)
    return one
  }
  const pause = (session: SessionId, paused: boolean) =>
    afterOthers(session, async () => {
      const one = await servedOf(session)
      await change(one, { ...one.terms, paused })
    })

  return {
    all,
    retryAll,
    verbs: {
      open(command) {
        for (const kind of kinds) kind.check?.(command)
        // At once, as every word on the ledger is: another that comes meanwhile is newer.
        books.tell({ ...command.ledger, simulated: isPlay(command.provider) })
        return afterOthers(command.session, () => open(command))
      },
      close: ({ session }) => afterOthers(session, () => close(session)),
      async panic() {
        const sessions = all()
        await Promise.all(sessions.map(close))
        return { closed: sessions.length }
      },
      pause: ({ session }) => pause(session, true),
      resume: ({ session }) => pause(session, false),
      policy: ({ session, policy }) =>
        afterOthers(session, async () => {
          const { authority, windows, account } = await servedOf(session)
          authority.setPolicy(policy)
          changed(windows, 'rules')
          return account.save()
        }),
      budget: ({ session, budget_nanos }) =>
        afterOthers(session, async () => {
          const { windows, account } = await servedOf(session)
          account.recap(budget_nanos)
          changed(windows, 'money')
          for (const window of windows) window.retry()
          return account.save()
        }),
      ledger(command) {
        const { do: _, ...told } = command
        books.tell(told)
        changed(standing, 'money')
        retryAll()
        return books.keepNodes()
      },
      async price({ session, request }) {
        for (const window of (await servedOf(session)).windows) {
          const price = window.price(request)
          if (price !== null) return price
        }
        throw new Failure('not_found', `No call waits for request "${request}"`)
      },
      answer: (command) => afterOthers(command.session, () => answer(command)),
    },
    async reopenKept() {
      await Promise.all([...books.kept.values()].map(reopen))
    },
    async sealAnew(anew) {
      for (const opening of served.values()) {
        const one = await opening.catch(() => null)
        if (one === null) continue
        const { provider, net } = one.terms
        const { credential } = provider
        await change(one, {
          ...one.terms,
          provider:
            credential.from === 'sealed' ? { ...provider, credential: { ...credential, box: anew(credential.box) } } : provider,
          net: {
            ...net,
            credentials: net.credentials.map((bound) => ({ ...bound, box: bound.box === null ? null : anew(bound.box) })),
          },
        })
      }
    },
    async quiet() {
      const windows = (await Promise.all(served.values())).flatMap((one) => one.windows)
      await Promise.all(windows.map((window) => window.quiet()))
    },
    async close() {
      await Promise.all([...served.keys()].map((session) => shut(session)))
    },
  }
}

/** Terms whose authority is what it is when they are kept, and not what it was when they were told. */
function withAuthority(authority: SessionAuthority, terms: ServedOn): ServedOn {
  return {
    ...terms,
    get authority() {
      return authority.terms
    },
  }
}

const lacks = ({ auth, credential }: Provider, env: SessionsParts['env']) =>
  auth !== 'none' && credential.from === 'env' && env[credential.name] === undefined
const isPlay = ({ kind }: Provider) => kind === 'rehearsal'
