import type { PolicySettings } from '@anchorhold/core/policy/effective'
import type { Rule } from '@anchorhold/protocol/policy'

/** Refusals of every kind of action, all for one reason that stands in one line of a file. */
export function allDenied(why: string, line: number): Pick<PolicySettings, 'rules'> {
  const rules: readonly Rule[] = [
    { on: 'tool', match: {}, effect: 'deny', why },
    { on: 'net', match: { host: '*' }, effect: 'deny', why },
    { on: 'host', match: { program: '*' }, effect: 'deny', why },
    { on: 'spend', match: {}, effect: 'deny', why },
  ]
  return { rules: rules.map((rule) => ({ rule, line })) }
}
