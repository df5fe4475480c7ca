import { type Actor, seenBy } from '@anchorhold/core/actors'
import { endOf, periodOf, type Span } from '@anchorhold/core/ledger'
import type { BudgetView, SetBudget } from '@anchorhold/protocol/api/money'
import type { NewEvent, NodeName, Raise } from '@anchorhold/protocol/events'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId, UserId } from '@anchorhold/protocol/ids'
import type { LedgerNode, ToldNodes } from '@anchorhold/protocol/link'
import { microsUp, type Nanos, nanosOfMicros } from '@anchorhold/protocol/money'
import type { SessionRow } from '../../store/store.ts'
import { transaction, type Writes } from '../../transaction.ts'
import { by, type Judges, type Parts, type Reads, require, sessionFor } from '../parts.ts'
import { appliedTo, effectiveFor } from '../policy/policy.ts'

/** Caps that come from somewhere else than a door: what the policies say. */
type Rule = {
  readonly node: NodeName
  readonly caps: Partial<Record<Span, Nanos>>
  readonly tickMs: number
  readonly asks: boolean
  /** Where it is known from somewhere else than the ledger. */
  readonly spent?: Readonly<Record<Span, Nanos>>
}

const minuteMs = 60_000
const hourMs = 60 * minuteMs

/** The nodes that a session's calls go through, from the owner down, with what the policies let each of them spend. */
function nodesOf(parts: Judges, session: Pick<SessionRow, 'id' | 'ownerId' | 'options' | 'costNanos'>): readonly Rule[] {
  const { options, costNanos } = session
  const { approvalThresholdNanos: threshold } = effectiveFor(parts, session).money
  const approval = `approval/${session.id}`
  return [
    ruleOf(parts, 'owner'),
    ...appliedTo(parts, session).flatMap(({ name }) => (name === null ? [] : [ruleOf(parts, `policy/${name}`)])),
    ...(options.group === undefined ? [] : [ruleOf(parts, `group/${options.group}`)]),
    ...(threshold === null
      ? []
      : [{ node: approval, caps: { life: threshold }, tickMs: hourMs, asks: true, spent: { life: costNanos, day: 0, tick: 0 } }]),
  ]
}

/** What the policies say of a node: the house's own of the owner, a named one of all that it covers. */
function ruleOf({ policies }: Pick<Parts, 'policies'>, node: NodeName): Rule {
  const name = node.startsWith('policy/') ? node.slice('policy/'.length) : null
  const money = node === 'owner' ? policies.house().settings.money : name === null ? null : policies.named(name)?.settings.money
  const caps = {
    ...(money?.perDayNanos == null ? {} : { day: money.perDayNanos }),
    ...(money?.perTickNanos == null ? {} : { tick: money.perTickNanos }),
  }
  const tickMs = money?.tickMs ?? policies.house().settings.money.tickMs ?? hourMs
  // Sums are kept by the minute.
  return { node, caps, tickMs: Math.max(1, Math.ceil(tickMs / minuteMs)) * minuteMs, asks: false }
}

/** What is known of a session's nodes. The sums and the number of the record that they go up to are read together. */
export function ledgerOf(
  parts: Judges & Pick<Parts, 'now'>,
  session: Pick<SessionRow, 'id' | 'ownerId' | 'options' | 'costNanos' | 'simulated'>,
): ToldNodes {
  return told(parts, session.simulated, nodesOf(parts, session))
}

function told(parts: Reads & Pick<Parts, 'now'>, simulated: boolean, rules: readonly Rule[]): ToldNodes {
  const { ledger, events } = parts.store
  // By a clock that does not go back either: no call that is booked began later.
  const at = Math.max(parts.now(), ledger.latestMs())
  const nodes = rules.map(({ node, caps, tickMs, asks, spent }): LedgerNode => {
    const set = ledger.caps(node)
    const raises = ledger.raises(node, simulated)
    const cap = (span: Span): Nanos | null => {
      const base = least(caps[span], set[span])
      const raise = raises.find((one) => one.span === span && one.period === periodOf(span, at, tickMs))
      return base === null || raise === undefined ? base : Math.max(base, raise.nanos)
    }
    return {
      node,
      caps: { life: cap('life'), day: cap('day'), tick: cap('tick') },
      tick_ms: tickMs,
      asks,
      spent: { ...(spent ?? ledger.spent(node, simulated, at, tickMs)) },
    }
  })
  return { simulated, at, to: events.lastOf('gate'), nodes }
}

function least(...caps: readonly (Nanos | undefined)[]): Nanos | null {
  const set = caps.filter((cap) => cap !== undefined)
  return set.length === 0 ? null : Math.min(...set)
}

/** Whoever allows a call that the nodes above its session do not hold must be one who may write their caps. */
export function requireRaise(parts: Judges, actor: Actor, session: SessionId, raises: readonly Raise[]): void {
  if (raises.some(({ node }) => !isOfSession(node))) require(parts, actor, 'policy.write')
  const { approvers } = effectiveFor(parts, sessionFor(parts, session, null)).money
  const needsApproval = raises.some(({ node }) => node.startsWith('approval/'))
  if (!needsApproval || approvers === null || actor.kind === 'owner' || approvers.includes(actor.name)) return
  throw new Failure('forbidden', `"${actor.name}" may not approve what this session spends: the policy names its approvers`, {
    hint: `Ask ${approvers.join(', ')} or an owner`,
  })
}
const isOfSession = (node: NodeName) => /^(session|approval|agent)\//.test(node)

/** An approval is for as much again as needed none, and not for the one call alone. */
export function approved(parts: Judges, session: SessionId, raises: readonly Raise[]): readonly Raise[] {
  const threshold = effectiveFor(parts, sessionFor(parts, session, null)).money.approvalThresholdNanos ?? 0
  const whole = (nanos: Nanos) => (threshold === 0 ? nanos : Math.ceil(nanos / threshold) * threshold)
  return raises.map((raise) => (raise.node.startsWith('approval/') ? { ...raise, cap_nanos: whole(raise.cap_nanos) } : raise))
}

/** What the log says of nodes that may spend more. */
export const raiseEvents = (raises: readonly Raise[], simulated: boolean, actor: Actor): NewEvent[] =>
  raises
    .filter(({ node }) => !node.startsWith('agent/'))
    .map((raise) => ({ type: 'budget.raised', body: { ...raise, simulated, ...by(actor) } }))

/** Every node that has a cap or spent something, and how far it has come in its day and tick. */
export function listBudgets(parts: Judges & Pick<Parts, 'now'>, actor: Actor): readonly BudgetView[] {
  require(parts, actor, 'policy.read')
  const user = seenBy(actor)
  const known = parts.store.ledger.nodes().filter(({ node }) => !isOfSession(node))
  if (user !== null) {
    const own = nodesSeen(parts, user)
    return known.filter(({ node }) => own.has(node)).flatMap((node) => budgetViews(parts, node))
  }
  const nodes = known.some(({ node }) => node === 'owner') ? known : [{ node: 'owner', simulated: false }, ...known]
  return nodes.flatMap((node) => budgetViews(parts, node))
}

/** The groups and policies that the sessions of a user, and those shown to them, spend under. What the house spends is its owners' to see. */
function nodesSeen(parts: Judges, user: UserId): ReadonlySet<NodeName> {
  const seen = { archived: false, state: null, before: null, limit: sessionsMax, seenBy: user }
  const nodes = parts.store.sessions.list(seen).flatMap((session) => nodesOf(parts, session).map(({ node }) => node))
  return new Set(nodes.filter((node) => node !== 'owner'))
}
const sessionsMax = 500

function budgetViews(
  parts: Reads & Pick<Parts, 'now' | 'policies'>,
  { node, simulated }: { node: NodeName; simulated: boolean },
): readonly BudgetView[] {
  const { at, nodes } = told(parts, simulated, [ruleOf(parts, node)])
  return nodes.map(({ caps, spent, tick_ms }) => {
    const view = (span: Span) => ({
      spent_micros: microsUp(spent[span]),
      cap_micros: caps[span] === null ? null : microsUp(caps[span]),
      ends_at: endOf(span, periodOf(span, at, tick_ms), tick_ms),
    })
    return { node, simulated, life: view('life'), day: view('day'), tick: view('tick') }
  })
}

/** Sets what a node may spend. Calls that wait for it go on at once, as far as it reaches. */
export async function setBudget(
  parts: Writes & Pick<Parts, 'gate' | 'policies'>,
  actor: Actor,
  input: SetBudget,
): Promise<readonly BudgetView[]> {
  require(parts, actor, 'policy.write')
  const { node, per, budget_micros } = input
  if (isOfSession(node))
    throw new Failure('bad_request', `"${node}" is not a node that has a budget of its own`, { hint: 'Name owner or group/NAME' })
  const cap_nanos = budget_micros === null ? null : nanosOfMicros(budget_micros)
  transaction(parts, (tx) => {
    require(tx, actor, 'policy.write')
    const { ledger } = tx.store
    ledger.setCap(node, per, cap_nanos)
    // What a policy caps lower is raised above it for the period that is now, and for no other.
    const { caps, tickMs } = ruleOf(tx, node)
    const lower = caps[per]
    const period = periodOf(per, Math.max(tx.now(), ledger.latestMs()), tickMs)
    if (lower !== undefined && cap_nanos !== null && cap_nanos > lower)
      for (const simulated of [false, true]) ledger.raise(node, simulated, per, period, cap_nanos)
    tx.note({ type: 'budget.set', body: { node, span: per, cap_nanos, ...by(actor) } })
  })
  await tellGateOfCaps(parts, [node])
  return parts.store.ledger.seenAs(node).flatMap((simulated) => budgetViews(parts, { node, simulated }))
}

/** Tells the gate what some nodes may spend from here on. */
async function tellGateOfCaps(
  parts: Reads & Pick<Parts, 'gate' | 'now' | 'policies'>,
  nodes: readonly NodeName[],
): Promise<void> {
  if (!parts.gate.up) return
  for (const simulated of [false, true]) {
    const rules = nodes.map((node) => ruleOf(parts, node))
    await parts.gate.do({ do: 'ledger', ...told(parts, simulated, rules) })
  }
}
