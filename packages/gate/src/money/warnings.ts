import { endOf, type Span, type Sum, warnAt } from '@anchorhold/core/ledger'
import type { NewEvent } from '@anchorhold/protocol/events'
import type { Shortage } from './nodes.ts'
import { formatUsd, microsUp, type Nanos } from '@anchorhold/protocol/money'

/** A node in words. */
function whose(name: string): string {
  if (name === 'session') return "this session's budget"
  const [kind = '', ...rest] = name.split('/')
  const own = rest.join('/')
  if (kind === 'owner') return 'the budget of the whole house'
  if (kind === 'policy') return `the budget of the policy "${own}"`
  if (kind === 'group') return `the budget of the group "${own}"`
  if (kind === 'approval') return 'what this session may spend without being approved'
  if (kind === 'agent') return `the budget of the sub-agent "${rest.at(-1) ?? ''}"`
  return "this session's budget"
}

const spanWords = { life: '', day: ' for this day (UTC)', tick: ' for this tick' } as const satisfies Record<Span, string>

/** Which cap of which node is meant, with the sum that it allows. */
function capWords(name: string, span: Span, capNanos: Nanos): string {
  return `${whose(name)}${spanWords[span]}, ${formatUsd(microsUp(capNanos))},`
}

/** Why a call is not made, and what helps. */
export function shortSentence({ node, span, tickMs, sum }: Shortage): string {
  const next = nextPeriod(span, sum.period, tickMs)
  const words = capWords(node, span, sum.capNanos ?? 0)
  const remedy = remedyFor(node, span)
  const capital = words[0]!.toUpperCase() + words.slice(1)
  return `${capital} does not hold another call: ${next === null ? '' : `the next begins at ${next}; or `}${remedy}`
}

/** The command that helps. Only the owner, a policy and a group have a budget that a command sets: whoever approves a session answers
 *  its request. */
function remedyFor(node: string, span: Span): string {
  if (node.startsWith('approval/'))
    return 'somebody approves it: anchorhold requests shows what waits, anchorhold allow REQUEST allows it'
  if (node.startsWith('agent/')) return 'what sub-agents may spend is set where a session is made: agent_budget_micros'
  const named = node.startsWith('session/') ? node.slice('session/'.length) : node
  return `raise it with: anchorhold budget ${named} USD${span === 'life' ? '' : ` --per ${span}`}`
}

/** When the next period begins, for people. */
function nextPeriod(span: Span, period: number, tickMs: number): string | null {
  const end = endOf(span, period, tickMs)
  return end === null ? null : `${new Date(end).toISOString().slice(0, 16).replace('T', ' ')} UTC`
}

export function warning(
  node: { readonly name: string; readonly tickMs?: number },
  span: Span,
  { capNanos, spentNanos }: Pick<Sum, 'capNanos' | 'spentNanos'>,
): NewEvent {
  const cap = capWords(node.name, span, capNanos ?? 0)
  const message = `${formatUsd(microsUp(spentNanos))} are spent: ${cap} is used up to more than ${warnAt * 100} %`
  return { type: 'notice', body: { level: 'warning', code: 'budget_near', message } }
}
