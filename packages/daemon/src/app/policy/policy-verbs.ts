import type { Actor } from '@anchorhold/core/actors'
import { actionOf, actionWords, meaningOf } from '@anchorhold/core/policy/action-text'
import { compilePolicy, decide, isStricter } from '@anchorhold/core/policy/decide'
import { defaultPolicy } from '@anchorhold/core/policy/default-policy'
import { digestOf } from '@anchorhold/core/policy/digest'
import { effective, type EffectivePolicy } from '@anchorhold/core/policy/effective'
import { explain } from '@anchorhold/core/policy/explain'
import { heldWords } from '@anchorhold/core/policy/held-words'
import type { Meaning } from '@anchorhold/core/policy/meaning'
import { ruleWords } from '@anchorhold/core/policy/rule-words'
import { printableActionLine } from '@anchorhold/core/printable'
import type { Action } from '@anchorhold/protocol/actions'
import { Failure } from '@anchorhold/protocol/failures'
import { firstOwner, type SessionId } from '@anchorhold/protocol/ids'
import type { PolicyProblem, Rule } from '@anchorhold/protocol/policy'
import type { ExplainAction, Explained, PolicyView, TestOutcome } from '@anchorhold/protocol/api/policy'
import { createHash } from 'node:crypto'
import { readFixtures } from '../../policy/read-fixtures.ts'
import { readPolicy } from '../../policy/read-policy.ts'
import type { SessionRow } from '../../store/store.ts'
import { limitsOn, type Whose } from './limits.ts'
import { type Judges, type Parts, type Reads, require, sessionFor } from '../parts.ts'
import { effectiveFor, requirePolicy } from './policy.ts'

const actionCharsMax = 300
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

/** What is in force for a session, or for one that this actor would start now. */
export function showPolicy(parts: Judges, actor: Actor, session: SessionId | null): PolicyView {
  require(parts, actor, 'policy.read')
  const held = heldTo(parts, actor, session === null ? {} : { session })
  const { rules, ...policy } = held.policy
  return {
    folder: parts.config.config,
    files: parts.policies.list().map(({ file, name, inForce, problems, text }) => ({
      file,
      name,
      in_force: inForce === 'gone' ? 'last good' : inForce,
      problems: [...problems],
      exists: text !== '' || problems.length > 0,
    })),
    policy,
    settings: [...heldWords(held)],
    rules: rules.map((rule, index) => ({ rule, words: ruleWords(rule), at: held.origins[index]! })),
  }
}

type Check = { readonly ok: boolean; readonly rules: number; readonly problems: PolicyProblem[] }

export function reloadPolicy(parts: Reads & Pick<Parts, 'policies'>, actor: Actor): Check {
  require(parts, actor, 'policy.write')
  parts.policies.reload()
  return checkPolicy(parts, actor, {})
}

/** A text, or the files of the config folder. */
export function checkPolicy(
  parts: Reads & Pick<Parts, 'policies'>,
  actor: Actor,
  { text, name }: { readonly text?: string | undefined; readonly name?: string | undefined },
): Check {
  require(parts, actor, 'policy.read')
  if (text === undefined) parts.policies.look()
  const read =
    text === undefined
      ? parts.policies
          .list()
          .map(({ inForce, settings, problems }) => ({ settings: inForce === 'current' ? settings : null, problems }))
      : [readPolicy(name ?? 'policy.yaml', text)]
  return {
    ok: read.every(({ settings }) => settings !== null),
    rules: read.reduce((sum, { settings }) => sum + (settings?.rules.length ?? 0), 0),
    problems: read.flatMap(({ problems }) => [...problems]),
  }
}

/** How an action would be decided, and why. */
export function explainAction(parts: Judges & Pick<Parts, 'now'>, actor: Actor, input: ExplainAction): Explained {
  require(parts, actor, 'policy.read')
  if (input.session !== undefined) require(parts, actor, 'session.read', input.session)
  const held =
    input.text === undefined
      ? heldTo(parts, actor, input)
      : effective([usable(input.text)], { autonomy: input.autonomy ?? null, observe: false, mayWiden: true })
  const { policy, origins } = held
  const session = input.session === undefined ? null : sessionFor(parts, input.session, null)
  const meaning = meaningOf(actionOf(input.action), folderOf(session))
  const { limits, unseen } = limitsOn(parts, held, whoseOf(actor, input, session), meaning.action)
  const { decision, parts: judged, change, rule } = explain(compilePolicy(policy), meaning)
  const at = (index: number) => ({ words: ruleWords(policy.rules[index]!), at: origins[index]! })
  const [limit] = limits.toSorted((a, b) => (isStricter(a.effect, b.effect) ? -1 : isStricter(b.effect, a.effect) ? 1 : 0))
  const over = limit !== undefined && isStricter(limit.effect, decision.effect) ? limit : null
  return {
    effect: over?.effect ?? decision.effect,
    by: over?.by ?? decision.by,
    at: over !== null || decision.rule === null ? null : origins[decision.rule]!,
    command: decision.command ?? null,
    autonomy: policy.autonomy,
    parts: judged.map(({ command, matches }) => ({
      command,
      matches: matches.map(({ rule, effect, maybe, decides }) => ({ ...at(rule), effect, maybe, decides })),
    })),
    grants: session === null ? [] : grantsFor(parts, session.id, meaning),
    change: over === null ? [...change] : [over.change],
    rule: over === null ? rule : null,
    limits: [...limits],
    unseen: [...unseen],
  }
}

function whoseOf(actor: Actor, { text, policy }: ExplainAction, session: SessionRow | null): Whose {
  if (text !== undefined) return 'a text'
  return session === null ? { ownerId: actor.user ?? firstOwner, options: policy === undefined ? {} : { policy } } : { session }
}

/** Where the session's files are, by the names that its tools use. */
export const folderOf = (session: Pick<SessionRow, 'rung' | 'workspace'> | null): { readonly workspace?: string } =>
  session?.rung === 'none' || session?.rung === 'seatbelt' ? { workspace: session.workspace } : {}

/** What somebody has allowed this session that is not used up and covers the action. */
function grantsFor(parts: Reads & Pick<Parts, 'now'>, session: SessionId, meaning: Meaning): string[] {
  const digest = digestOf(meaning.action, sha256)
  const covers = (rule: Rule) =>
    decide(compilePolicy({ ...defaultPolicy, autonomy: 'supervised', rules: [rule] }), meaning).effect === 'allow'
  return parts.store.requests
    .grants(session, parts.now())
    .filter((grant) => grant.digest === digest || (grant.rule !== null && covers(grant.rule)))
    .map(({ request, scope, actor }) => `${request}, allowed ${scope === 'once' ? 'once' : 'for the session'} by ${actor}`)
}

/** Whether each action of a list is decided as it says. */
export function testPolicy(
  parts: Judges,
  actor: Actor,
  { fixtures, text }: { readonly fixtures: string; readonly text?: string | undefined },
): { readonly outcomes: TestOutcome[]; readonly failed: number } {
  require(parts, actor, 'policy.read')
  const settings = text === undefined ? null : usable(text)
  const expected = readFixtures(fixtures)
  // A wrong file must not look like one whose every action was decided as it says.
  if (expected.length === 0)
    throw new Failure('bad_request', 'There is nothing to test: the fixtures are empty', {
      hint: 'Write a list of { action: { tool: Bash, command: git push }, expect: deny }',
    })
  const outcomes = expected.map(({ action, expect, autonomy, policy, line }): TestOutcome => {
    const held =
      settings === null
        ? heldTo(parts, actor, { policy, autonomy })
        : effective([settings], { autonomy: autonomy ?? null, observe: false, mayWiden: true })
    const meant = actionOf(action)
    const { effect, by } = decide(compilePolicy(held.policy), meaningOf(meant))
    return { line, action: shortWords(meant), expected: expect, effect, by, passed: effect === expect }
  })
  return { outcomes, failed: outcomes.filter(({ passed }) => !passed).length }
}

export const shortWords = (action: Action): string => printableActionLine(actionWords(action)).slice(0, actionCharsMax)

/** A policy that is to be tried must be one. */
export function usable(text: string): NonNullable<ReturnType<typeof readPolicy>['settings']> {
  const { settings, problems } = readPolicy('policy.yaml', text)
  if (settings !== null) return settings
  const [first] = problems
  throw new Failure('bad_request', `Cannot use the policy: line ${first?.line ?? 1}: ${first?.message ?? ''}`, {
    hint: 'anchorhold policy check FILE shows all that is wrong with it',
  })
}

type HeldTo = Pick<ExplainAction, 'session' | 'policy' | 'autonomy'>

/** What a session is held to; without one, what this actor's next would be. */
function heldTo(parts: Judges, actor: Actor, { session, policy, autonomy }: HeldTo): EffectivePolicy {
  if (session !== undefined) require(parts, actor, 'session.read', session)
  if (policy !== undefined) requirePolicy(parts, policy)
  const row = session === undefined ? { ownerId: actor.user ?? firstOwner, options: {} } : sessionFor(parts, session, null)
  const options = {
    ...row.options,
    ...(policy === undefined ? {} : { policy }),
    ...(autonomy === undefined ? {} : { autonomy }),
  }
  return effectiveFor(parts, { ...row, options })
}
