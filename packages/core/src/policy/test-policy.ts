import type { Policy, Rule } from '@anchorhold/protocol/policy'
import { defaultPolicy } from './default-policy.ts'
import type { Meaning } from './meaning.ts'
import { toolMeaning } from './tool-meaning.ts'

/** A policy of these rules, which asks for what they do not speak of. */
export const policyOf = (rules: readonly Rule[], more: Partial<Policy> = {}): Policy => ({
  ...defaultPolicy,
  autonomy: 'supervised',
  ...more,
  rules: [...rules],
})

export const bash = (command: string): Meaning => toolMeaning({ kind: 'tool', tool: 'Bash', input: { command } })

export const onCommand = (effect: Rule['effect'], command: string): Rule => ({
  on: 'tool',
  match: { tool: 'Bash', command },
  effect,
})
