import { access, mkdir } from 'node:fs/promises'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { setImmediate as immediate, setTimeout as wait } from 'node:timers/promises'
import type { z } from 'zod'
import { systemClock } from '@anchorhold/link/clock'
import type { Outbox } from '@anchorhold/link/outbox'
import type { SessionId } from '@anchorhold/protocol/ids'
import { Failure } from '@anchorhold/protocol/failures'
import type { GateCommand, GateHealth, OpenWindows } from '@anchorhold/protocol/gate-commands'
import type { Provider } from '@anchorhold/protocol/providers'
import type { Told } from '@anchorhold/protocol/authority'
import { openBooks } from './money/books.ts'
import type { Account, Money } from './money/account.ts'
import { type SessionAuthority, sessionAuthority } from './authority.ts'
import { connections } from './providers/connections.ts'
import { type KeptLease, leaseFiles, type ServedOn, servedOn } from './money/leases.ts'
import { checkProvider, testProvider } from './providers/checks.ts'
import { type ProviderParts, upstream } from './providers/providers.ts'
import { dialectOf } from './windows/model/dialects.ts'
import { rateLimits } from './money/rates.ts'
import { inTurn } from './in-turn.ts'
import { keyPlaces } from './keys/key-places.ts'
import { sealingKeys } from './keys/sealing-keys.ts'
import { kindOf } from './keys/secrets.ts'
import { fileSigner } from './keys/signing.ts'
import type { DialParts } from './windows/net/dial.ts'
import { type NetOpening, netOpenings } from './windows/net/opening.ts'
import { type CallLine, modelWindow, type ModelWindow } from './windows/model/window.ts'

/** The process that serves every cell's windows, without the link that it is commanded over. */
export type Gate = {
  handle(command: Exclude<GateCommand, { do: 'leave' }>): Promise<unknown>
  /** Resolves when no call is under way any more, or when it has taken too long. */
  quiet(withinMs: number): Promise<void>
  /** Ends every window. The next gate serves the same sessions. */
  close(): Promise<void>
}

export type GateParts = {
  /** The gate's own: its key and its leases. */
  readonly folder: string
  /** Where the rehearsal provider listens, a process of its own. */
  readonly rehearsalSocket: string
  readonly outbox: Outbox
  /** Whether it serves a single cell without a daemon: nobody is there to be asked, and no command reaches a budget. */
  readonly alone?: boolean
  /** Where `{ env }` credentials are looked up, and nothing else. */
  readonly env: Readonly<Record<string, string | undefined>>
  readonly now?: () => number
  readonly log?: (line: CallLine) => void
  /** Somebody waits for what has just reached the disk. */
  readonly tell?: () => void
  /** What an operator should know. */
  readonly say?: (message: string) => void
  /** The disk failed: calls are refused from here on, until another gate takes over. */
  readonly onBroken?: (error: Error) => void
  /** How long a call waits for somebody to pay for it. */
  readonly heldMs?: number
  /** How names are resolved and addresses dialled, where not as the machine does. */
  readonly dial?: DialParts
}

/** A session that is served. */
type Served = {
  readonly window: ModelWindow
  readonly account: Account
  readonly authority: SessionAuthority
  readonly net: NetOpening
  terms: ServedOn
}

/** Agents wait longer than this for an answer; nobody should be asked for longer than they wait. */
const heldMsMax = 5 * 60 * 1000
/** What a call cost is safe from the gate's death as soon as it is written; on its way to the disk it may wait for others. */
const settledSyncMs = 20

export async function gate(parts: GateParts): Promise<Gate> {
  await mkdir(parts.folder, { recursive: true, mode: 0o700 })
  const {
    now = Date.now,
    log = () => {},
    tell = () => {},
    say = () => {},
    onBroken = () => {},
    heldMs = heldMsMax,
    alone = false,
  } = parts
  const secrets = await sealingKeys({ given: parts.env.ENCRYPTION_KEY, places: await keyPlaces(parts) })
  const signer = await fileSigner(join(parts.folder, 'signing-key'))
  const books = await openBooks({
    outbox: parts.outbox,
    leases: leaseFiles(join(parts.folder, 'leases'), say),
    now,
    newCall: callIds(),
    soon: () => wait(settledSyncMs),
    onBroken,
    say,
    onFreed: () => retryAll(),
  })
  const rates = rateLimits(systemClock)
  const windows = new Set<ModelWindow>()
  /** Several sessions may wait at one node. */
  const retryAll = () => {
    for (const window of windows) window.retry()
  }
  const recovered = await books.recover()
  if (recovered > 0) say(`Booked ${recovered} model calls in full that the gate before this one did not live to settle`)
  const lines = connections()
  const { rehearsalSocket } = parts
  const providers: ProviderParts = { secrets, env: parts.env, rehearsalSocket, connections: lines }
  const openings = await netOpenings({ folder: parts.folder, dial: parts.dial, openSecret: secrets.open, alone, log, now })
  const served = new Map<SessionId, Promise<Served>>()
  const closing = new Map<SessionId, Promise<void>>()
  const termsOf = ({ provider, rules, spend }: ServedOn) => ({
    upstream: upstream(provider, providers),
    allow: new Set(rules.allow),
    spend,
    rates: rules.rates,
  })

  /** Opens a session's windows. Where a lease is to be kept for that, it is on the disk before anybody can call. */
  async function serve(session: SessionId, terms: ServedOn, money: Money, { keep }: { keep: boolean }): Promise<Served> {
    const account = books.open(session, money)
    const { folder } = terms
    // The window stands before what is beside it does.
    let net: Served['net'] | null = null
    const settling = () => net?.flush()
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
    const lasting = withAuthority(authority, terms)
    if (keep) await account.save(lasting)
    const window = await modelWindow({
      session,
      dialect: dialectOf(terms.dialect),
      folder,
      terms: termsOf(terms),
      account,
      books,
      authority,
      rates,
      now,
      log,
      heldMs,
      alone,
      paused: terms.paused,
      settling,
      settled: tell,
    })
    windows.add(window)
    net = openings.of(session, { authority, note: account.note, terms: () => one.terms })
    const one: Served = { window, account, authority, net, terms: lasting }
    try {
      await net.fit()
    } catch (error) {
      windows.delete(window)
      await window.close()
      throw error
    }
    return one
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

  /** Changes what a session is served on, and keeps it that way. */
  async function change(one: Served, terms: ServedOn): Promise<void> {
    one.terms = withAuthority(one.authority, terms)
    one.window.update(termsOf(terms))
    if (terms.paused) one.window.pause()
    else one.window.resume()
    one.net.look()
    await one.account.save(one.terms)
  }

  /** What is told of one session is done in the order in which it was told: an `open` that waits for a window to close must not
   *  bring back what was known before an answer. */
  const afterOthers = inTurn()

  function openInTurn(command: Extract<GateCommand, { do: 'open' }>): Promise<OpenWindows> {
    // One that cannot be dialled is refused before anything is changed.
    termsOf(command)
    dialectOf(command.dialect)
    // At once, as every word on the ledger is: another that comes meanwhile is newer.
    books.tell({ ...command.ledger, simulated: isPlay(command.provider) })
    return afterOthers(command.session, () => open(command))
  }
  async function open(command: Extract<GateCommand, { do: 'open' }>): Promise<OpenWindows> {
    const { session, provider, network, budget_nanos, spent_nanos, spent_to, ledger } = command
    const terms = servedOn(command)
    const nodes = ledger.nodes.map(({ node }) => node)
    const { agent_cap_nanos } = command
    // Made while what has to be on the disk gets there.
    const certificate = command.certificate && network === 'proxy_only' ? openings.certificate(session) : Promise.resolve(null)
    certificate.catch(() => {})
    const closed = command.closed && budget_nanos !== null
    const money = { budget_nanos, spent_nanos, spent_to, closed, nodes, agent_cap_nanos, simulated: isPlay(provider) }
    for (;;) {
      // A window that is on its way out would take the new one's socket along.
      await closing.get(session)
      const found = served.get(session)
      if (found === undefined) break
      const one = await found
      if (one.terms.dialect === terms.dialect && (await one.window.stands()) && (await one.net.stands())) {
        one.account.update(money)
        one.authority.update(command.authority, spent_to)
        await change(one, terms)
        await one.net.fit()
        one.window.retry()
        return { authority: await certificate }
      }
      // Nobody finds it any more: its folder was made anew while this gate opened what it had found in its leases.
      if (served.get(session) === found) await close(session)
    }
    // A session's own nodes went with its windows, where those were closed after this was told.
    const gone = ledger.nodes.filter(({ node }) => books.node(money.simulated, node) === undefined)
    if (gone.length > 0) books.tell({ ...ledger, simulated: money.simulated, nodes: gone })
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

  /** Serves a session as a gate before this one did. */
  async function reopen(lease: KeptLease): Promise<void> {
    // Without its variable nobody could be served: the daemon brings a gate that has it, and agents try until then.
    if (lacks(lease.provider, parts.env)) return
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

  /** Ends the session's window; whoever opens it again waits for that, and for what has to happen with it. */
  function shut(session: SessionId, and: Promise<void> = Promise.resolve()): Promise<void> {
    const one = served.get(session)
    served.delete(session)
    const window = one?.then(
      (opened) => {
        windows.delete(opened.window)
        return Promise.all([opened.window.close(), opened.net.close()])
      },
      () => {},
    )
    const before = closing.get(session)
    // Whoever closes it is told where that fails; whoever opens it next waits for all of it, and does not fail of it as well.
    const over: Promise<void> = Promise.allSettled([before, window, and]).then(() => {
      if (closing.get(session) === over) closing.delete(session)
    })
    closing.set(session, over)
    return Promise.all([before, window, and]).then(() => {})
  }
  /** Nobody is served there any more, now and after a restart. */
  const close = (session: SessionId) => shut(session, books.close(session))

  async function answer(command: Extract<GateCommand, { do: 'answer' }>): Promise<Told> {
    const { session, request, budget_nanos, raises, ...answered } = command
    if (books.asks(session).told.has(request)) return { told: true }
    const one = await served.get(session)?.catch(() => undefined)
    if (one === undefined) return { told: false }
    const { account, authority, window } = one
    // The money first: whoever waits goes on with it.
    if (raises.length > 0) books.raise(isPlay(one.terms.provider), raises)
    if (answered.answer.decision === 'allow' && budget_nanos !== undefined && budget_nanos !== account.lease.capNanos) {
      account.recap(budget_nanos)
      window.update()
    }
    const told = await authority.answer({ request, ...answered })
    await account.save()
    if (raises.length > 0) retryAll()
    return told
  }

  /** What gates after this one find in their leases is under the new key before the old one goes. */
  async function forgetOldKey(boxes: readonly string[]): Promise<void> {
    const anew = (box: string) => secrets.seal(secrets.open(box), kindOf(box))
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
    await secrets.finish(boxes)
  }

  async function servedOf(session: SessionId): Promise<Served> {
    const one = await served.get(session)
    if (one === undefined) throw new Failure('not_found', `Session "${session}" has no open windows`)
    return one
  }
  async function pause(session: SessionId, paused: boolean): Promise<void> {
    const one = await servedOf(session)
    await change(one, { ...one.terms, paused })
  }

  await Promise.all([...books.kept.values()].map(reopen))

  return {
    async handle(command) {
      switch (command.do) {
        case 'ping': {
          const sessions = [...new Set([...served.keys(), ...books.kept.keys()])]
          const health: z.infer<typeof GateHealth> = { sessions, env: Object.keys(parts.env) }
          return health
        }
        case 'open':
          return openInTurn(command)
        case 'close':
          return afterOthers(command.session, () => close(command.session))
        case 'pause':
          return afterOthers(command.session, () => pause(command.session, true))
        case 'resume':
          return afterOthers(command.session, () => pause(command.session, false))
        case 'budget':
          return afterOthers(command.session, async () => {
            const { window, account } = await servedOf(command.session)
            account.recap(command.budget_nanos)
            window.update()
            window.retry()
            return account.save()
          })
        case 'ledger': {
          const { do: _, ...told } = command
          books.tell(told)
          for (const window of windows) window.update()
          retryAll()
          return books.keepNodes()
        }
        case 'price': {
          const { window } = await servedOf(command.session)
          return window.price(command.request)
        }
        case 'answer':
          return afterOthers(command.session, () => answer(command))
        case 'policy':
          return afterOthers(command.session, async () => {
            const one = await servedOf(command.session)
            one.authority.setPolicy(command.policy)
            one.net.look()
            return one.account.save()
          })
        case 'panic': {
          const all = [...new Set([...served.keys(), ...books.kept.keys()])]
          await Promise.all(all.map(close))
          return { closed: all.length }
        }
        case 'sign':
          return command.head === null ? signer.publicKey : signer.sign(command.head)
        case 'seal':
          return { box: secrets.seal(command.plaintext, command.inside === true ? 'inside' : 'kept') }
        case 'open_inside':
          return { plaintexts: command.boxes.map((box) => secrets.openInside(box)) }
        case 'reseal':
          await secrets.begin()
          return { boxes: command.boxes.map((box) => secrets.seal(secrets.open(box), kindOf(box))) }
        case 'resealed':
          return forgetOldKey(command.boxes)
        case 'check':
          return checkProvider(command.provider, providers)
        case 'test':
          return testProvider(command.provider, command.model, dialectOf('messages'), providers)
      }
    },
    async quiet(withinMs) {
      const all = Promise.all([...served.values()].map(async (one) => (await one).window.quiet()))
      await Promise.race([all.catch(() => {}), wait(withinMs)])
    },
    async close() {
      await Promise.all([...served.keys()].map((session) => shut(session)))
      await books.flush().catch(() => {})
      await lines.close()
    },
  }
}

const lacks = ({ auth, credential }: Provider, env: GateParts['env']) =>
  auth !== 'none' && credential.from === 'env' && env[credential.name] === undefined
/** No two gates begin with the same word, and none gives a number twice. */
function callIds(): () => string {
  const gate = randomBytes(12).toString('base64url')
  let calls = 0
  return () => `${gate}.${(++calls).toString(36)}`
}

const isPlay = ({ kind }: Provider) => kind === 'rehearsal'
