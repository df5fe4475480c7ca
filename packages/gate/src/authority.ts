import { authority, type Authority, type Patience, type Settled, type Verdict } from '@anchorhold/core/authority/authority'
import { compilePolicy, decide } from '@anchorhold/core/policy/decide'
import { digestOf } from '@anchorhold/core/policy/digest'
import { plainMeaning } from '@anchorhold/core/policy/meaning'
import type { Action, NetAction, SpendAction } from '@anchorhold/protocol/actions'
import type { NewEvent } from '@anchorhold/protocol/events'
import { newRequestId, type RequestId } from '@anchorhold/protocol/ids'
import type { Authority as Terms } from '@anchorhold/protocol/authority'
import { createHash, randomBytes } from 'node:crypto'
import type { Account } from './money/account.ts'
import type { Asks } from './money/records.ts'

/** What decides over whatever leaves one session's cell: its calls, and what it spends. */
export type SessionAuthority = Omit<Authority, 'judge' | 'askAhead' | 'update'> & {
  /** Whether an action may happen, asked for where nothing says so. When whoever waits goes away, the request stays open, and what is
   *  allowed by then is kept for when it is done again. */
  judge(action: NetAction | SpendAction, patience: Patience): Promise<Verdict>
  /** Asks for a call before it is made, with what the agent says of it. */
  askAhead(action: NetAction, said: string, patience: Patience): Promise<Verdict>
  /** Why a rule forbids it, without anybody being asked; null where none does. */
  denies(action: NetAction): string | null
  /** Under the policy in force, and asking nobody: why a call that was let out, and what allowed it then, may not go on. */
  stands(): (action: NetAction, by: string) => string | null
  /** Takes the daemon's word on all that it has heard of by this record of the gate's. */
  update(terms: Terms, heardTo: number): void
}

export type SessionAuthorityParts = {
  readonly terms: Terms
  /** Up to which of the gate's records the terms know all. */
  readonly heardTo: number
  /** What gates have written down of this session's requests and grants. */
  readonly before: Asks
  readonly account: Pick<Account, 'note' | 'last'>
  readonly flush: () => Promise<void>
  readonly now: () => number
  /** What a gate after this one must know has changed. */
  readonly onChange: () => void
}

/** So many decisions on calls are told apart in so long: a cell can name any number of hosts. */
const toldMax = 1000
const toldMs = 10 * 60_000
/** Of one host, so many paths are told apart: a cell can name any number of them. */
const pathsToldMax = 200

export function sessionAuthority({
  terms,
  heardTo,
  before,
  account,
  flush,
  now,
  onChange,
}: SessionAuthorityParts): SessionAuthority {
  /** The record that each request was opened with. */
  const openedWith = new Map<RequestId, number>(before.opened.map(({ asked, n }) => [asked.request, n]))
  // What the terms do not name though they know of it was settled.
  const since = before.opened.flatMap(({ asked, n }) => (n > heardTo ? [asked] : []))
  const open = [...terms.asked, ...since].filter(({ request }) => !before.settled.has(request))
  /** Decisions on calls that are in the log. A host is called a thousand times over, and `net` events count how often. */
  let told = new Set<string>()
  let toldSince = now()
  let pathsTold = new Map<string, number>()
  function isTold(action: Action, { effect, by }: Settled): boolean {
    if (action.kind !== 'net') return false
    const host = `${action.host}:${action.port}`
    const whole = JSON.stringify([effect, host, action.method, by])
    const path = action.path?.split('?')[0] ?? null
    const exact = path === null ? whole : JSON.stringify([effect, host, action.method, by, path])
    const paths = pathsTold.get(host) ?? 0
    if (told.has(exact) || (paths >= pathsToldMax && told.has(whole))) return true
    if (told.size >= toldMax) {
      if (now() - toldSince < toldMs) return true
      toldSince = now()
      told = new Set()
      pathsTold = new Map()
    }
    if (path !== null) pathsTold.set(host, (pathsTold.get(host) ?? 0) + 1)
    told.add(whole).add(exact)
    return false
  }
  /** Grants that are no more because they were used: what they let out was theirs to let out, as long as nothing denies it. */
  const usedUp = new Set<string>()
  const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
  const one = authority({
    terms: { ...terms, asked: open },
    name: 'gate',
    whenLeft: 'stay open',
    write(event: NewEvent) {
      account.note(event)
      if (event.type === 'request.opened') openedWith.set(event.body.id, account.last)
      if (event.type === 'grant.used' && !one.terms.grants.some(({ request }) => request === event.body.request))
        usedUp.add(event.body.request)
      if (event.type !== 'decision') onChange()
    },
    flush,
    inOrder: (work) => work(),
    mayAsk: () => true,
    now,
    newRequest: () => newRequestId(randomBytes),
    sha256,
    isTold,
    before: { used: before.used, told: before.told },
  })
  return {
    ask: one.ask,
    open: one.open,
    use: one.use,
    setPolicy: one.setPolicy,
    takeBackAll: one.takeBackAll,
    leaveAll: one.leaveAll,
    get waiting() {
      return one.waiting
    },
    get policy() {
      return one.policy
    },
    get holdsGrants() {
      return one.holdsGrants
    },
    get terms() {
      return one.terms
    },
    async answer(answered) {
      const told = await one.answer(answered)
      onChange()
      return told
    },
    judge: (action, patience) => one.judge({ meaning: plainMeaning(action), call: null, pins: async () => [] }, patience),
    askAhead: (action, said, patience) => one.askAhead(plainMeaning(action), said, patience),
    denies(action) {
      const { effect, by } = decide(compilePolicy(one.policy), plainMeaning(action))
      return effect === 'deny' ? `This is not allowed (${by})` : null
    },
    stands() {
      const { policy, grants } = one.terms
      const compiled = compilePolicy(policy)
      const inForce = grants.filter(({ expires_at }) => expires_at === null || expires_at > now())
      const wider = inForce.flatMap(({ rule }) =>
        rule === null ? [] : [compilePolicy({ ...policy, rules: [...policy.rules, rule] })],
      )
      return (action, by) => {
        const meaning = plainMeaning(action)
        const decision = decide(compiled, meaning)
        if (decision.effect === 'allow') return null
        const why = `This is not allowed any more (${decision.by})`
        if (decision.effect === 'deny') return why
        if (policy.observe || usedUp.has(by.split(' ')[0]!)) return null
        if (wider.some((rules) => decide(rules, meaning).effect === 'allow')) return null
        const digest = digestOf(action, sha256)
        return inForce.some((grant) => grant.rule === null && grant.digest === digest) ? null : why
      }
    },
    update: (next, heardTo) => one.update(next, (request) => (openedWith.get(request) ?? 0) <= heardTo),
  }
}
