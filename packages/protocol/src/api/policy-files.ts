import { z } from 'zod'
import { Digest } from '../actions.ts'
import { PolicyName } from '../people.ts'
import { PolicyFileView } from './policy.ts'
import { type Route } from './route.ts'

const textCharsMax = 1024 * 1024

/** A policy file as it lies in the config folder, comments and all. */
export const PolicyText = PolicyFileView.extend({
  text: z.string(),
  sha256: Digest.describe('Of the text: whoever writes the file says which one they have seen'),
})
export type PolicyText = z.infer<typeof PolicyText>

export const WritePolicy = z.strictObject({
  name: PolicyName.optional().describe('A named policy (default: that of the house)'),
  text: z.string().max(textCharsMax),
  was: Digest.describe('Of the text that was changed: nothing is written where the file is another by now'),
})
export type WritePolicy = z.infer<typeof WritePolicy>

export const policyFilesRoutes = {
  readPolicyFile: {
    summary: 'A policy file, as it was written; for owners',
    query: z.strictObject({ name: PolicyName.optional() }),
    status: 200,
    response: PolicyText,
  },
  writePolicyFile: {
    summary: 'Replace a policy file by one that can be used; it is in force at once',
    body: WritePolicy,
    status: 200,
    response: PolicyText,
  },
} as const satisfies Record<string, Route>
