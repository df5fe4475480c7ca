import { ActionText } from '@anchorhold/protocol/actions'
import { Failure } from '@anchorhold/protocol/failures'
import { Autonomy, Effect } from '@anchorhold/protocol/policy'
import { isNode, isSeq, LineCounter, parseDocument, visit } from 'yaml'
import { z } from 'zod'
import { tooDeep } from './too-deep.ts'

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
  const fail = (line: number, message: string): never => {
    throw new Failure('bad_request', `Cannot use the fixtures: line ${line}: ${message}`, {
      hint: 'Each is: { action: { tool: Bash, command: git push }, expect: deny }',
    })
  }
  const deep = tooDeep(text)
  if (deep !== null) fail(deep, 'this is nested too deep')
  // The parser would look for keys that are there twice by comparing each with each.
  const doc = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: false })
  const [error] = doc.errors
  if (error !== undefined) fail(lines.linePos(error.pos[0]).line, error.message)
  visit(doc, {
    Alias: (_, node) => fail(lines.linePos(node.range?.[0] ?? 0).line, `the alias "*${node.source}" is not taken: write it out`),
  })
  const parsed = FixtureFile.safeParse(doc.toJS() ?? [])
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
