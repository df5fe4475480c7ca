// What is wrong with a policy file, without a daemon. A program of its own: it reads YAML, which the command line otherwise does not.
import { readPolicy } from '@anchorhold/daemon/policy/read-policy'
import type { PolicyProblem } from '@anchorhold/protocol/policy'

export function checkPolicy(
  name: string,
  text: string,
): { readonly ok: boolean; readonly rules: number; readonly problems: readonly PolicyProblem[] } {
  const { settings, problems } = readPolicy(name, text)
  return { ok: settings !== null, rules: settings?.rules.length ?? 0, problems }
}
