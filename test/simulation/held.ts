import { firstHash, hashedLine, hashTailChars, nextHash } from '@anchorhold/core/chain'
import { periodOf } from '@anchorhold/core/ledger'
import { after, atBirth, type Standing } from '@anchorhold/core/session-states'
import type { Store } from '@anchorhold/daemon/store/store'
import type { Event } from '@anchorhold/protocol/events'
import type { PromptId, SessionId } from '@anchorhold/protocol/ids'
import { createHash } from 'node:crypto'
import { expect } from 'vitest'
import type { House } from './house.ts'
import type { Deed } from './schedule.ts'

// What must be true of a house, whatever happens to it.

/** What is remembered of a house from one look to the next. */
export type Held = {
  /** What was spent and set aside the last time. */
  sumNanos: number
  /** Since when the gate goes by another budget than the log, under the same daemon. */
  differs: { readonly parts: House['parts']; readonly gate: House['gate']; readonly since: number } | null
  budgetSeenAt: number
}
const tellMs = 2000
const budgetEveryMs = 100
const hourMs = 3_600_000

/** The gate goes by the budget that the log has, as soon as it can have heard of it. */
export function holdBudget(one: House, store: Store, held: Held, elapsed: number): void {
  if (elapsed - held.budgetSeenAt < budgetEveryMs) return
  held.budgetSeenAt = elapsed
  const { parts, gate, session } = one
  const lease = gate?.leaseOf(session)
  const budget = store.sessions.get(session)?.budgetNanos
  if (parts === null || lease === undefined || lease.capNanos === budget) return void (held.differs = null)
  if (held.differs?.parts !== parts || held.differs.gate !== gate) held.differs = { parts, gate, since: elapsed }
  if (elapsed - held.differs.since > tellMs)
    throw new Error(`The gate goes by a budget of ${lease.capNanos}, and the log by ${budget}`)
}

/** Spent and set aside never go beyond the cap, at any moment and at any node. */
export function holdAlways(one: House, held: Held): void {
  const node = one.gate?.nodeOf(one.group)
  for (const sum of Object.values(node?.sums ?? {})) {
    if (sum.spentNanos + sum.reservedNanos > sum.capNanos!) throw new Error(`The group is above its cap: ${JSON.stringify(node)}`)
    if (sum.reservedNanos < 0) throw new Error(`Less than nothing is set aside for the group: ${JSON.stringify(node)}`)
  }
  const lease = one.gate?.leaseOf(one.session)
  if (lease === undefined || lease.capNanos === null) return
  const sumNanos = lease.spentNanos + lease.reservedNanos
  // What was spent before the cap was lowered cannot be taken back.
  if (sumNanos > Math.max(lease.capNanos, held.sumNanos)) throw new Error(`Above the cap: ${JSON.stringify(lease)}`)
  held.sumNanos = sumNanos
  if (lease.reservedNanos < 0) throw new Error(`Less than nothing is set aside: ${JSON.stringify(lease)}`)
}

type AtRest = {
  readonly one: House
  readonly store: Store
  readonly acknowledged: readonly PromptId[]
  readonly watched: readonly Event[]
  readonly said: ReadonlyMap<string, string>
  readonly deeds: readonly Deed[]
}

/** Each event's hash follows from the one before, up to the head. */
function holdsTogether(store: Store, session: SessionId): void {
  const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
  const { seq: last, hash } = store.chains.head(session)!
  let previous = firstHash(sha256, session)
  for (let seq = 0; seq < last;) {
    for (const page of store.chains.lines(session, seq, last)) {
      const end = page.line.length - hashTailChars
      previous = nextHash(sha256, previous, page.line.slice(0, end))
      expect(page.line).toBe(hashedLine(page.line.slice(0, end), previous))
      seq = page.seq
    }
  }
  expect(previous).toBe(hash)
}

/** What is true of a house in which nothing happens any more. */
export function holdAtRest({ one, store, acknowledged, watched, said, deeds: all }: AtRest): void {
  const { session } = one
  const log = store.events.after(session, 0, 100_000)
  const times = (...which: readonly Deed[]) => all.filter((deed) => which.includes(deed)).length
  const row = store.sessions.get(session)!
  const of = <T extends Event['type']>(type: T) =>
    log.filter((event): event is Extract<Event, { type: T }> => event.type === type)
  // Numbers have no gap, and whoever watched has seen the same.
  expect(log.map(({ seq }) => seq)).toEqual(log.map((_, index) => index + 1))
  holdsTogether(store, session)
  expect(watched.map(({ seq, type }) => `${seq} ${type}`)).toEqual(log.map(({ seq, type }) => `${seq} ${type}`))
  // The state is what the events make of it.
  let standing: Standing = atBirth
  for (const event of log) standing = after(standing, event).standing
  expect(row.standing).toEqual(standing)
  expect(row.state).toBe(standing.state)
  // One turn at a time, and none is left open.
  let turn = false
  for (const { type, seq } of log) {
    if (type === 'turn.started') {
      expect({ seq, turn }).toEqual({ seq, turn: false })
      turn = true
    }
    if (type === 'turn.ended' || type === 'keeper.lost' || type === 'keeper.left') turn = false
  }
  expect(turn).toBe(false)
  expect(one.keepers()).toEqual([])
  // Every prompt that was acknowledged was taken up once, or dropped by somebody who said so.
  const prompts = of('prompt').map(({ body }) => body.id)
  const dropped = of('prompt.dropped').map(({ body }) => body.id)
  expect(new Set(prompts).size).toBe(prompts.length)
  expect(prompts.filter((id) => dropped.includes(id))).toEqual([])
  expect(new Set(dropped).size).toBe(dropped.length)
  // Beside those that people sent there are those that tell of answers.
  const news = of('prompt.queued').flatMap(({ body }) => (body.text.startsWith('While you were away') ? [body.id] : []))
  expect(new Set([...prompts, ...dropped])).toEqual(new Set([...acknowledged, ...news]))
  // In the order they came, but for those that steer, which may overtake those that queue.
  for (const mode of ['steer', 'queue']) {
    const queued = of('prompt.queued').flatMap(({ body }) => (body.mode === mode ? [body.id] : []))
    expect(prompts.filter((id) => queued.includes(id))).toEqual(queued.filter((id) => prompts.includes(id)))
  }
  // What was handed on has reached an agent, unless a person ended the turn before.
  for (const { seq, body } of of('prompt')) {
    const isOver = log.some((event) => event.seq > seq && event.type === 'turn.ended' && isPersons(event.body.why))
    if (!isOver) expect({ id: body.id, received: one.received.has(body.id) }).toEqual({ id: body.id, received: true })
  }
  for (const [id, times] of one.received) expect({ id, times }).toEqual({ id, times: 1 })
  holdRequests(one, log, times('power cut') > 0)
  // Every call is booked once, and the sum is what they cost.
  const usage = of('usage').map(({ body }) => body)
  expect(new Set(usage.map(({ call }) => call)).size).toBe(usage.length)
  expect(row.costNanos).toBe(usage.reduce((sum, { cost_nanos }) => sum + cost_nanos, 0))
  const booked = new Set(usage.map(({ call }) => call))
  for (const call of one.safeCalls) expect({ call, booked: booked.has(call) }).toEqual({ call, booked: true })
  expect(one.gate?.leaseOf(session)?.reservedNanos ?? 0).toBe(0)
  // The nodes above hold the same sum, and no day or tick of them more than it may.
  const began = usage.map(({ began_at }) => began_at!)
  expect(usage.flatMap(({ nodes = [] }) => nodes)).toEqual(usage.flatMap(() => ['owner', one.group]))
  expect(store.ledger.spent(one.group, true, 0, hourMs).life).toBe(row.costNanos)
  for (const at of began) {
    const inDay = usage.filter(({ began_at }) => periodOf('day', began_at!, hourMs) === periodOf('day', at, hourMs))
    expect(store.ledger.spent(one.group, true, at, hourMs).day).toBe(inDay.reduce((sum, { cost_nanos }) => sum + cost_nanos, 0))
  }
  const group = one.gate?.nodeOf(one.group)
  if (group !== undefined) {
    expect(group.sums.life).toMatchObject({ spentNanos: row.costNanos, reservedNanos: 0 })
    for (const span of ['day', 'tick'] as const) expect(group.sums[span].reservedNanos).toBe(0)
  }
  // A keeper that is ended is started again; only a session whose keepers never stand, or left what cannot be read, has failed.
  if (times('kill keeper', 'kill all', 'power cut', 'keeper disk') < 3 && times('unreadable') === 0)
    expect(of('session.state').filter(({ body }) => body.to === 'failed')).toEqual([])
  // A gate that dies is there again before an agent gives up.
  if (times('kill gate') < 2 && times('kill all', 'power cut', 'gate disk', 'kill daemon') === 0)
    expect(of('turn.ended').filter(({ body }) => body.reason === 'error')).toEqual([])
  // What a turn has cost is known when it ends.
  if (times('clock', 'kill gate', 'kill all', 'power cut', 'gate disk') === 0)
    for (const ended of of('turn.ended'))
      // One that began at once, with what was left, may have made calls by then.
      if (
        ended.body.reason === 'done' &&
        ended.body.left === undefined &&
        !of('turn.started').some(({ at }) => at >= ended.at && at < ended.at + 20)
      )
        expect(of('usage').filter(({ seq, at }) => seq > ended.seq && at < ended.at)).toEqual([])
  // What was shown is stored, unless the power went: it is not synced.
  if (times('power cut') > 0) return
  const stored = new Map(of('text').map(({ body }) => [body.block, body.text]))
  for (const [block, text] of said) expect({ block, text: stored.get(block)?.slice(0, text.length) }).toEqual({ block, text })
}

const isPersons = (why: string | null) => why === 'Asked to stop' || why?.startsWith('Stopped by') === true

/** Nothing happens that was not let, nothing is let twice, and whoever asked hears what became of it. */
function holdRequests({ performed }: House, log: readonly Event[], powerWent: boolean): void {
  const of = <T extends Event['type']>(type: T) =>
    log.filter((event): event is Extract<Event, { type: T }> => event.type === type)
  const opened = new Map(of('request.opened').map(({ body }) => [body.id, body]))
  const answers = new Map(of('request.answered').map(({ body }) => [body.id, body.answer]))
  expect(opened.size).toBe(of('request.opened').length)
  expect(answers.size).toBe(of('request.answered').length)
  expect(new Set(answers.keys())).toEqual(new Set(opened.keys()))
  const told = of('request.told').map(({ body }) => body.id)
  expect(new Set(told).size).toBe(told.length)
  for (const [id, { decision }] of answers)
    if (decision !== 'withdrawn') expect({ id, decision, told: told.includes(id) }).toEqual({ id, decision, told: true })
  const used = of('grant.used').map(({ body }) => body)
  for (const { request, digest } of used) {
    const { decision, scope } = answers.get(request)!
    expect(decision).toBe('allow')
    if (scope === 'session') continue
    expect(opened.get(request)!.digest).toBe(digest)
    expect(used.filter((one) => one.request === request)).toHaveLength(1)
  }
  const letBy = new Set([...used.map(({ call }) => call), ...of('decision').map(({ body }) => body.call)])
  // That a rule let it nobody waits to have on the disk: with the power, that goes as well as what it did.
  const waitedFor = new Set(of('request.opened').map(({ body }) => body.call))
  for (const { kind, what } of performed)
    if (kind === 'tool' && !(powerWent && !waitedFor.has(what)))
      expect({ what, let: letBy.has(what) }).toEqual({ what, let: true })
  const net = (host: string) =>
    used.filter(({ request }) => {
      const { action } = opened.get(request)!
      return action.kind === 'net' && action.host === host
    }).length
  for (const host of new Set(performed.flatMap(({ kind, what }) => (kind === 'net' ? [what] : []))))
    expect(performed.filter(({ kind, what }) => kind === 'net' && what === host).length).toBeLessThanOrEqual(net(host))
}
