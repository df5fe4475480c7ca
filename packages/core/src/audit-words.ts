import { counted } from './counted.ts'
import type { Event, EventBody, EventType } from '@anchorhold/protocol/events'
import type { HouseEvent, HouseEventType } from '@anchorhold/protocol/house'
import { formatUsd, microsUp } from '@anchorhold/protocol/money'

/** An event of an audit, the log that it stands in, and what it says in one line. */
export type Audited = {
  readonly at: number
  readonly log: string
  readonly words: string
  readonly event: Event | HouseEvent
}

type By = { readonly actor?: string | undefined; readonly door?: string | undefined }
const by = ({ actor, door }: By) => (actor === undefined ? '' : ` by ${actor}${door === undefined ? '' : ` through ${door}`}`)
const money = (nanos: number) => formatUsd(microsUp(nanos))
const short = (digest: string) => digest.slice(0, 12)

/** What an audit shows of a session's log; every other event is called by its type. */
const told: { readonly [T in EventType]?: (body: EventBody<T>) => string } = {
  decision: ({ effect, kind, call, digest, by: why }) => `${effect}: ${kind} ${call ?? short(digest)}, ${why}`,
  'request.opened': ({ id, action, why }) => `asked: ${id} for ${action.kind}${why === undefined ? '' : `, ${why}`}`,
  'request.deferred': (body) => `not now: ${body.id}${by(body)}`,
  'request.told': ({ id }) => `told: ${id}`,
  'request.answered': ({ id, answer: { decision, scope, reason }, ...who }) =>
    `${decision}${scope === undefined ? '' : ` (${scope})`}: ${id}${by(who)}${reason === undefined ? '' : `, "${reason}"`}`,
  'grant.used': ({ request, digest }) => `grant used: ${request} on ${short(digest)}`,
  'session.changed': ({ budget_nanos: budget, autonomy, model, name, ...who }) => {
    const parts = [
      budget === undefined ? null : `budget ${budget === null ? 'without limit' : money(budget)}`,
      autonomy === undefined ? null : `autonomy ${autonomy}`,
      model === undefined ? null : `model ${model}`,
      name === undefined ? null : `name "${name}"`,
    ]
    return `changed: ${parts.filter((part) => part !== null).join(', ')}${by(who)}`
  },
  usage: ({ provider, model, cost_nanos, status }) =>
    `credential of ${provider} used: ${model}, ${money(cost_nanos)}, status ${status}`,
  'budget.raised': ({ node, span, cap_nanos: cap, ...who }) => `budget of ${node} by ${span} raised to ${money(cap)}${by(who)}`,
  net: ({ host, port, secrets }) =>
    `secrets put into calls to ${host ?? 'several hosts'}${port === null ? '' : `:${port}`}: ${secrets.map(({ name, count }) => `${name} (${count})`).join(', ')}`,
  'session.created': ({ name, rung, network, ...who }) =>
    `created: "${name}" on ${rung}${network === 'host' ? ' with the network of the host' : ''}${by(who)}`,
  'session.state': ({ to, why, ...who }) => `${to}${why === null ? '' : `: ${why}`}${by(who)}`,
  'session.shared': ({ user, access, ...who }) =>
    `${access === null ? 'no longer shared' : `shared to ${access}`} with ${user}${by(who)}`,
  'prompt.queued': ({ id, ...who }) => `prompt ${id}${by(who)}`,
  'prompt.dropped': ({ id, ...who }) => `prompt dropped: ${id}${by(who)}`,
  'terminal.opened': ({ shell, ...who }) => `terminal ${shell} opened${by(who)}`,
  'terminal.closed': ({ shell, why }) => `terminal ${shell} closed: ${why}`,
  'file.uploaded': ({ path, bytes, ...who }) => `file put into the workspace: "${path}", ${bytes} bytes${by(who)}`,
}

export function auditWords(event: Event): Audited {
  const tell = told[event.type] as ((body: Event['body']) => string) | undefined
  return { at: event.at, log: event.session, words: tell?.(event.body) ?? event.type, event }
}

const said: { readonly [T in HouseEventType]: (body: Extract<HouseEvent, { type: T }>['body']) => string } = {
  'user.added': ({ user, role }) => `user ${user} added as ${role}`,
  'user.changed': ({ user, role }) => `user ${user} is ${role}`,
  'user.removed': ({ user }) => `user ${user} removed`,
  'token.made': ({ user, kind, name, token }) => `${kind} "${name}" (${token}) made for ${user}`,
  'token.revoked': ({ user, name, token }) => `token "${name}" (${token}) of ${user} revoked`,
  login: ({ user, name, how, address }) =>
    `login of ${user} with ${name}${how === undefined ? '' : ` by ${how}`}${address == null ? '' : ` from ${address}`}`,
  'login.failed': ({ user, how, why, address }) =>
    `login${user === null ? '' : ` of ${user}`} by ${how} failed${address == null ? '' : ` from ${address}`}: ${why}`,
  'login.proved': ({ user, how, token }) => `${user} showed again who they are by ${how} (${token})`,
  'account.changed': ({ user, what }) => `account of ${user}: ${what}`,
  'policy.changed': ({ policy, sha256 }) => `policy ${policy} ${sha256 === null ? 'removed' : `is now ${short(sha256)}`}`,
  'secret.changed': ({ secret, what }) => `secret ${secret} ${what}`,
  'secret.key_rotated': ({ resealed }) => `new key, ${resealed} sealed anew`,
  'provider.changed': ({ provider, what }) => `provider ${provider} ${what}`,
  'provider.tested': ({ provider, verdict }) => `credential of ${provider} used for a test: ${verdict}`,
  'budget.set': ({ node, span, cap_nanos: cap }) =>
    `budget of ${node} by ${span}: ${cap === null ? 'without limit' : money(cap)}`,
  panic: ({ sessions }) => `panic: ${counted(sessions, 'session')} stopped`,
  'panic.lifted': () => 'panic lifted: agents may run again',
  shutdown: ({ all }) => `daemon ended${all ? ', and all with it' : ''}`,
  'session.purged': ({ session, name, seq, hash }) =>
    `session ${session} "${name}" purged after event ${seq} (${hash === null ? 'without a hash' : short(hash)})`,
  exported: ({ logs }) => `everything exported: ${counted(logs, 'log')}`,
}

export function houseWords(event: HouseEvent): Audited {
  const words = (said[event.type] as (body: HouseEvent['body']) => string)(event.body)
  return { at: event.at, log: 'house', words: `${words}${by(event.body)}`, event }
}
