import { type Actor, seenBy } from '@anchorhold/core/actors'
import { toolNamed } from '@anchorhold/core/agents/tools'
import { meaningOf } from '@anchorhold/core/policy/action-text'
import { compilePolicy, type CompiledPolicy, decide, isStricter } from '@anchorhold/core/policy/decide'
import { meaningText } from '@anchorhold/core/policy/digest'
import { effective, type PolicySettings } from '@anchorhold/core/policy/effective'
import type { Meaning } from '@anchorhold/core/policy/meaning'
import { propose } from '@anchorhold/core/policy/propose'
import { ruleWords } from '@anchorhold/core/policy/rule-words'
import type { Action } from '@anchorhold/protocol/actions'
import type { Event } from '@anchorhold/protocol/events'
import { Failure } from '@anchorhold/protocol/failures'
import type { RequestId, SessionId } from '@anchorhold/protocol/ids'
import type { Effect, Rule } from '@anchorhold/protocol/policy'
import type { BacktestPolicy, PolicyBacktest } from '@anchorhold/protocol/api/policy'
import type { RuleLook } from '@anchorhold/protocol/api/requests'
import { setImmediate } from 'node:timers/promises'
import { stringify } from 'yaml'
import { asWritten } from '../../policy/append-rule.ts'
import type { SessionRow } from '../../store/store.ts'
import { type Judges, type Parts, type Reads, require, sessionFor } from '../parts.ts'
import { wouldRefuse } from './would-refuse.ts'
import { effectiveFor } from './policy.ts'
import { folderOf, shortWords, usable } from './policy-verbs.ts'
import { getRequest } from '../requests/requests.ts'

const dayMs = 24 * 60 * 60 * 1000
const usualDays = 30
const pageSize = 500
/** As much of a session's past as is looked at for a proposal. */
const proposedMax = 2000
const examplesMax = 20
/** For a person who is about to answer. */
const lookedAtMax = 20_000
const sessionsShown = 20
const examplesShown = 3

/** The smallest policy that would have allowed what these sessions did. */
export async function proposePolicy(
  parts: Reads,
  actor: Actor,
  sessions: readonly SessionId[],
): Promise<{ readonly text: string; readonly actions: number; readonly skipped: number; readonly complete: boolean }> {
  for (const session of sessions) require(parts, actor, 'session.read', session)
  const meanings = new Map<string, Meaning>()
  const models = new Set<string>()
  const providers = new Set<string>()
  let actions = 0
  let skipped = 0
  let complete = true
  for (const id of sessions) {
    const session = sessionFor(parts, id, null)
    models.add(session.model)
    providers.add(session.provider)
    for (let seq = 0; ;) {
      const page = parts.store.events.after(id, seq, pageSize)
      if (meanings.size >= proposedMax && page.length > 0) {
        complete = false
        break
      }
      for (const event of page) {
        const action = actionIn(event)
        if (action === 'too long') skipped++
        if (action === null || action === 'too long') continue
        actions++
        meanings.set(meaningText(action), meaningOf(action, folderOf(session)))
      }
      if (page.length < pageSize) break
      seq = page.at(-1)!.seq
      await setImmediate()
    }
  }
  const rules = propose([...meanings.values()])
  const policy = {
    default_autonomy: 'supervised',
    allowed_providers: [...providers].toSorted(),
    allowed_models: [...models].toSorted(),
    rules: rules.map(asWritten),
  }
  return { text: stringify(policy, { lineWidth: 0 }), actions, skipped, complete }
}

/** What a policy would have made of past sessions, or one more rule beside what is in force. */
export async function backtestPolicy(
  parts: Judges & Pick<Parts, 'now'>,
  actor: Actor,
  { text, rule, days = usualDays }: BacktestPolicy,
): Promise<PolicyBacktest> {
  require(parts, actor, 'policy.read')
  if ((text === undefined) === (rule === undefined))
    throw new Failure('bad_request', 'Give either the text of a policy or one rule')
  const since = parts.now() - days * dayMs
  return text === undefined
    ? replay(parts, actor, since, withRule(parts, rule!))
    : replay(parts, actor, since, instead(parts, usable(text)))
}

/** For those who are about to make a rule of a request: the rule, and what it would have done. Whoever waits for it is a person
 *  with a finger over a button, so only so much is looked at. */
export async function requestRule(parts: Judges & Pick<Parts, 'now'>, actor: Actor, id: RequestId): Promise<RuleLook> {
  const { rule, rule_refused } = getRequest(parts, actor, id)
  require(parts, actor, 'policy.read')
  if (rule === null) return { rule, words: null, refused: rule_refused, past: null }
  const past = await replay(parts, actor, parts.now() - usualDays * dayMs, withRule(parts, rule), lookedAtMax)
  return {
    rule,
    words: ruleWords(rule),
    refused: null,
    past: {
      ...past,
      sessions: past.sessions.slice(0, sessionsShown).map((one) => ({ ...one, examples: one.examples.slice(-examplesShown) })),
    },
  }
}

/** How a session's actions are judged: as they are now, where that is compared with; and as they would be. */
type Trial = { readonly before: CompiledPolicy | null; readonly after: CompiledPolicy; readonly stopped: string | null }
type TrialOf = (session: SessionRow) => Trial

function instead(parts: Reads, settings: PolicySettings): TrialOf {
  return (session) => {
    const owner = parts.store.people.get(session.ownerId)
    const mayWiden = session.autonomyGiven || (owner !== null && owner.role !== 'agent')
    const held = effective([settings], { autonomy: session.options.autonomy ?? null, observe: false, mayWiden })
    return { before: null, after: compilePolicy(held.policy), stopped: wouldRefuse(parts, settings, held, session) }
  }
}

function withRule(parts: Judges, rule: Rule): TrialOf {
  return (session) => {
    const { policy } = effectiveFor(parts, session)
    return {
      before: compilePolicy(policy),
      after: compilePolicy({ ...policy, rules: [...policy.rules, rule] }),
      stopped: null,
    }
  }
}

async function replay(
  parts: Reads,
  actor: Actor,
  since: number,
  trialOf: TrialOf,
  actionsMax = Infinity,
): Promise<PolicyBacktest> {
  type Found = { -readonly [K in keyof PolicyBacktest['sessions'][number]]: PolicyBacktest['sessions'][number][K] }
  const trials = new Map<SessionId, { readonly session: SessionRow; readonly trial: Trial; readonly found: Found } | null>()
  const total = { actions: 0, denied: 0, asked: 0, allowed: 0, skipped: 0 }
  let complete = true
  for (let pos = Number.MAX_SAFE_INTEGER; ;) {
    const page = parts.store.events.acts(pos, since, pageSize, seenBy(actor))
    for (const event of page) {
      const tried = trials.get(event.session) ?? begin(event.session)
      const action = actionIn(event)
      if (action === 'too long') total.skipped++
      if (tried === null || action === null || action === 'too long') continue
      total.actions++
      judge(tried, event, action)
    }
    if (page.length < pageSize) break
    if (total.actions >= actionsMax) {
      complete = false
      break
    }
    pos = page.at(-1)!.pos
    // Others are served in between.
    await setImmediate()
  }
  const sessions = [...trials.values()].flatMap((one) => (one === null ? [] : [one.found]))
  for (const { examples } of sessions) examples.reverse()
  return {
    since,
    complete,
    ...total,
    sessions: sessions.filter(({ stopped, denied, asked, allowed }) => stopped !== null || denied + asked + allowed > 0),
  }

  function begin(id: SessionId) {
    const session = parts.store.sessions.get(id)
    const trial = session === null ? null : trialOf(session)
    const made =
      session === null || trial === null
        ? null
        : {
            session,
            trial,
            found: { session: id, name: session.name, stopped: trial.stopped, denied: 0, asked: 0, allowed: 0, examples: [] },
          }
    trials.set(id, made)
    return made
  }

  function judge(
    { session, trial, found }: { session: SessionRow; trial: Trial; found: Found },
    event: Event,
    action: Action,
  ): void {
    const meaning = meaningOf(action, folderOf(session))
    const { effect, by } = decide(trial.after, meaning)
    const before: Effect | null = trial.before === null ? null : decide(trial.before, meaning).effect
    // Beside what is in force only what changes counts; on its own, what would have been stopped.
    if (before === null ? effect === 'allow' : before === effect) return
    const what = before !== null && isStricter(before, effect) ? 'allowed' : effect === 'deny' ? 'denied' : 'asked'
    found[what]++
    total[what]++
    if (found.examples.length < examplesMax)
      found.examples.push({ seq: event.seq, at: event.at, action: shortWords(action), before, effect, by })
  }
}

/** What an event says was done. Questions and plans are for people, whatever the policy. */
function actionIn(event: Event): Action | 'too long' | null {
  if (event.type === 'decision') return event.body.action ?? null
  if (event.type !== 'tool.started') return null
  const { tool, input, truncated } = event.body
  if (toolNamed(tool).forPeople) return null
  if (truncated) return 'too long'
  return typeof input === 'object' && input !== null && !Array.isArray(input)
    ? { kind: 'tool', tool, input: input as Record<string, unknown> }
    : null
}
