import type { Actor } from '@anchorhold/core/actors'
import { endOf, periodOf, type Span } from '@anchorhold/core/ledger'
import type { BudgetView, SetBudget } from '@anchorhold/protocol/api'
import type { NodeName } from '@anchorhold/protocol/events'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { LedgerNode, Raise, ToldNodes } from '@anchorhold/protocol/link'
import { microsUp, type Nanos, nanosOfMicros } from '@anchorhold/protocol/money'
import type { SessionRow } from '../store/store.ts'
import { by, note, type Parts, record, require } from './parts.ts'

/** Caps that come from somewhere else than a door: what the policies say. */
type Rule = {
  readonly node: NodeName
  readonly caps: Partial<Record<Span, Nanos>>
  readonly tickMs: number
  readonly asks: boolean
}

const hourMs = 60 * 60 * 1000

/** The nodes above a session, from the owner down, with what its policies let each of them spend. */
function nodesAbove(_parts: Parts, { options }: Pick<SessionRow, 'options'>): readonly Rule[] {
  const plain = (node: NodeName): Rule => ({ node, caps: {}, tickMs: hourMs, asks: false })
  return [plain('owner'), ...(options.group === undefined ? [] : [plain(`group/${options.group}`)])]
}

/** What is known of a session's nodes. The sums and the number of the record that they go up to are read together. */
export function ledgerOf(parts: Parts, session: Pick<SessionRow, 'options' | 'simulated'>): ToldNodes {
  return told(parts, session.simulated, nodesAbove(parts, session))
}

function told(parts: Parts, simulated: boolean, rules: readonly Rule[]): ToldNodes {
  const { ledger, events } = parts.store
  // By a clock that does not go back either: no call that is booked began later.
  const at = Math.max(parts.now(), ledger.latestMs())
  const nodes = rules.map(({ node, caps, tickMs, asks }): LedgerNode => {
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
      spent: { ...ledger.spent(node, simulated, at, tickMs) },
    }
  })
  return { simulated, at, to: events.lastOf('gate'), nodes }
}

function least(...caps: readonly (Nanos | undefined)[]): Nanos | null {
  const set = caps.filter((cap) => cap !== undefined)
  return set.length === 0 ? null : Math.min(...set)
}

/** Whoever allows a call that the nodes above its session do not hold must be one who may write their caps. */
export function requireRaise(parts: Parts, actor: Actor, _session: SessionId, raises: readonly Raise[]): void {
  if (raises.some(({ node }) => !isOfSession(node))) require(parts, actor, 'policy.write')
}
const isOfSession = (node: NodeName) => /^(session|approval|agent)\//.test(node)

/** Lets the nodes above a session spend more: in the log first, and then at the gate. */
export async function raiseNodes(parts: Parts, actor: Actor, session: SessionId, raises: readonly Raise[]): Promise<void> {
  if (raises.length === 0) return
  const { simulated } = parts.store.sessions.get(session)!
  const events = raises
    .filter(({ node }) => !node.startsWith('agent/'))
    .map((raise) => ({ type: 'budget.raised' as const, body: { ...raise, simulated, ...by(actor) } }))
  if (events.length > 0) record(parts, session, ...events)
  await parts.gate.do({ do: 'raise', simulated, raises: [...raises], actor: actor.name, door: actor.door })
}

/** Every node that has a cap or spent something, and how far it has come in its day and tick. */
export function listBudgets(parts: Parts, actor: Actor): readonly BudgetView[] {
  require(parts, actor, 'policy.read')
  const { ledger } = parts.store
  const known = ledger.nodes().filter(({ node }) => !isOfSession(node))
  const nodes = known.some(({ node }) => node === 'owner') ? known : [{ node: 'owner', simulated: false }, ...known]
  return nodes.flatMap(({ node, simulated }) => {
    const { at, nodes: views } = told(parts, simulated, [{ node, caps: {}, tickMs: hourMs, asks: false }])
    return views.map(({ caps, spent, tick_ms }) => {
      const view = (span: Span) => ({
        spent_micros: microsUp(spent[span]),
        cap_micros: caps[span] === null ? null : microsUp(caps[span]),
        ends_at: endOf(span, periodOf(span, at, tick_ms), tick_ms),
      })
      return { node, simulated, life: view('life'), day: view('day'), tick: view('tick') }
    })
  })
}

/** Sets what a node may spend. Calls that wait for it go on at once, as far as it reaches. */
export async function setBudget(parts: Parts, actor: Actor, input: SetBudget): Promise<readonly BudgetView[]> {
  require(parts, actor, 'policy.write')
  const { node, per, budget_micros } = input
  if (isOfSession(node))
    throw new Failure('bad_request', `"${node}" is no node that has a budget of its own`, { hint: 'Name owner or group/NAME' })
  const cap_nanos = budget_micros === null ? null : nanosOfMicros(budget_micros)
  parts.store.atomically(() => {
    parts.store.ledger.setCap(node, per, cap_nanos)
    note(parts, { type: 'budget.set', body: { node, span: per, cap_nanos, ...by(actor) } })
  })
  await tellCaps(parts, actor, [node])
  return listBudgets(parts, actor).filter((one) => one.node === node)
}

/** Tells the gate what some nodes may spend from here on. */
async function tellCaps(parts: Parts, actor: Actor, nodes: readonly NodeName[]): Promise<void> {
  if (!parts.gate.up) return
  for (const simulated of [false, true]) {
    const rules = nodes.map((node): Rule => ({ node, caps: {}, tickMs: hourMs, asks: false }))
    await parts.gate.do({ do: 'ledger', ...told(parts, simulated, rules), actor: actor.name, door: actor.door })
  }
}
