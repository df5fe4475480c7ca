import type { PolicyTrouble } from '@anchorhold/protocol/policy'

/** What a person is told of a policy file that cannot be used. */
export const policyTroubleWords = ({ file, line, message, in_force }: PolicyTrouble): string =>
  `${file} cannot be used: line ${line}: ${message}. ${instead[in_force]}`

const instead = {
  'last good': 'The version before it stays in force',
  locked: 'Nothing is allowed until it is mended',
} as const satisfies Record<PolicyTrouble['in_force'], string>
