import { ActionText } from '@anchorhold/protocol/api/policy'
import { Failure } from '@anchorhold/protocol/failures'
import { Autonomy, Effect } from '@anchorhold/protocol/policy'
import { isNode, isSeq, LineCounter, parseDocument } from 'yaml'
import { z } from 'zod'

const fixturesMax = 5000

const FixtureFile = z
  .array(
    z.strictObject({
      action: ActionText,
      expect: Effect,
      autonomy: Autonomy.optional(),
      policy: z.string().optional(),
    }),
  )
  .max(fixturesMax)
export type Fixture = z.infer<typeof FixtureFile>[number] & { readonly line: number }

/** Reads a list of actions and what is expected of each. */
export function readFixtures(text: string): readonly Fixture[] {
  const lines = new LineCounter()
  const doc = parseDocument(text, { lineCounter: lines, prettyErrors: false })
  const fail = (line: number, message: string): never => {
    throw new Failure('bad_request', `Cannot use the fixtures: line ${line}: ${message}`, {
      hint: 'Each is: { action: { tool: Bash, command: git push }, expect: deny }',
    })
  }
  const [error] = doc.errors
  if (error !== undefined) fail(lines.linePos(error.pos[0]).line, error.message)
  const parsed = FixtureFile.safeParse(doc.toJS({ maxAliasCount: 0 }) ?? [])
  const lineOf = (path: readonly PropertyKey[]): number => {
    for (let length = path.length; length > 0; length--) {
      const node: unknown = doc.getIn(path.slice(0, length), true)
      if (isNode(node)) return lines.linePos(node.range?.[0] ?? 0).line
    }
    return 1
  }
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    return fail(lineOf(issue?.path ?? []), `${issue?.path.map(String).join('.') ?? ''}: ${issue?.message ?? ''}`)
  }
  const list: unknown = doc.contents
  return parsed.data.map((one, index) => ({ ...one, line: isSeq(list) ? lineOf([index]) : 1 }))
}
