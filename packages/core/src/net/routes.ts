import type { Rule } from '@anchorhold/protocol/policy'
import { fitsPort, hostName } from '../policy/meaning.ts'
import type { Target } from './target.ts'

/** How a target is reached, once something allows it. */
export type Route = {
  /** `tunnel` passes TLS on as it is; `open` looks inside. */
  readonly how: 'tunnel' | 'open'
  /** A rule opens this one place although it is on the owner's own network. */
  readonly ownNetwork: boolean
  /** No credential of the cell's own goes there. */
  readonly onlyOurs: boolean
}

type NetRule = Extract<Rule, { readonly on: 'net' }>

/** The same, by rules that may be others later. */
export function routesBy(rules: () => readonly Rule[]): (target: Target) => Route {
  let known: { readonly rules: readonly Rule[]; readonly routes: (target: Target) => Route } | null = null
  return (target) => {
    const now = rules()
    if (known?.rules !== now) known = { rules: now, routes: routesOf(now) }
    return known.routes(target)
  }
}

/** What the rules say of how targets are reached. What a rule says outright counts; otherwise TLS is opened where a rule speaks of
 *  what is inside it. */
export function routesOf(rules: readonly Rule[]): (target: Target) => Route {
  const net = rules.filter((rule) => rule.on === 'net').map((rule) => ({ rule, wanted: hostName(rule.match.host) }))
  return (target) => {
    const matching = net.flatMap(({ rule, wanted }) => (isOf(rule, wanted, target) ? [rule] : []))
    const said = matching.filter(({ effect }) => effect === 'allow').flatMap(({ how }) => how ?? [])
    const looksInside = matching.some(({ match }) => match.method !== undefined || match.path !== undefined)
    const onlyOurs = matching.some(({ only_ours }) => only_ours === true)
    const isOpen = onlyOurs || (said.length > 0 ? said.includes('open') : looksInside)
    const ownNetwork = matching.some((rule) => opensOwnNetwork(rule, target))
    return { how: isOpen ? 'open' : 'tunnel', ownNetwork, onlyOurs }
  }
}

function isOf(rule: NetRule, wanted: string, target: Target): boolean {
  if (!fitsPort(rule, target.port)) return false
  if (wanted === '*' || wanted === target.host) return true
  return wanted.startsWith('.') && (target.host === wanted.slice(1) || target.host.endsWith(wanted))
}

/** Only one place, by its very name and port: whoever controls what a name resolves to must not choose the place. */
const opensOwnNetwork = ({ effect, own_network, match }: NetRule, target: Target): boolean =>
  effect === 'allow' && own_network === true && match.host.toLowerCase() === target.host && match.port === target.port
