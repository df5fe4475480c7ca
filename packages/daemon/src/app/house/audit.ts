import { type Actor, seenBy } from '@anchorhold/core/actors'
import { firstDigest, footerLine, headerLine, nextDigest } from '@anchorhold/core/chain'
import { type AuditKind, auditKinds, isAudited } from '@anchorhold/protocol/audit'
import type { Event } from '@anchorhold/protocol/events'
import { Failure } from '@anchorhold/protocol/failures'
import { type Head, type LogName, SignedHead, SigningKey } from '@anchorhold/protocol/heads'
import type { HouseEvent } from '@anchorhold/protocol/house'
import type { SessionId } from '@anchorhold/protocol/ids'
import { createHash } from 'node:crypto'
import { setImmediate as breathe } from 'node:timers/promises'
import { transaction, type Writes } from '../../transaction.ts'
import { by, type Parts, type Reads, require } from '../parts.ts'

const sessionsPerPage = 100
/** How many events one call looks at, whatever it finds. */
const lookedAtMax = 5000
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

/** Who has decided, answered, paid and changed what, the newest first. Each call looks at a bounded part of the log, and says
 *  where to go on. */
export function audit(
  parts: Reads,
  actor: Actor,
  {
    session,
    kind,
    since,
    before,
  }: {
    readonly session: SessionId | null
    readonly kind: AuditKind | null
    readonly since: number
    readonly before: number | null
  },
): { readonly entries: readonly Event[]; readonly before: number | null } {
  if (session === null) require(parts, actor, 'house.read')
  else require(parts, actor, 'session.read', session)
  const cursor = before ?? Number.MAX_SAFE_INTEGER
  const { events } = parts.store
  const page =
    session === null ? events.beforePos(cursor, lookedAtMax, seenBy(actor)) : events.before(session, cursor, lookedAtMax)
  const first = page[0]
  const wanted = new Set<string>(kind === null ? Object.values(auditKinds).flat() : auditKinds[kind])
  return {
    entries: page.filter((event) => wanted.has(event.type) && isAudited(event) && event.at >= since).reverse(),
    // Times are nearly in order: what is a day older than asked for ends the search.
    before:
      first === undefined || page.length < lookedAtMax || first.at < since - 86_400_000
        ? null
        : session === null
          ? first.pos
          : first.seq,
  }
}

export function houseEvents(
  parts: Reads,
  actor: Actor,
  { before, limit }: { readonly before: number | null; readonly limit: number },
): { readonly events: readonly HouseEvent[]; readonly more: boolean } {
  require(parts, actor, 'audit.all')
  const events = parts.store.house.before(before ?? Number.MAX_SAFE_INTEGER, limit + 1)
  return { events: events.slice(-limit), more: events.length > limit }
}

/** With which key the heads of exports are signed. */
export async function signingKey(parts: Reads & Pick<Parts, 'gate'>, actor: Actor): Promise<SigningKey> {
  require(parts, actor, 'house.read')
  await parts.gate.ensure()
  return SigningKey.parse(await parts.gate.do({ do: 'sign', head: null }))
}

/** A session's whole log, line by line, and where it stood, signed. */
export async function exportSession(
  parts: Reads & Pick<Parts, 'gate' | 'now'>,
  actor: Actor,
  id: SessionId,
): Promise<AsyncIterable<string>> {
  require(parts, actor, 'session.read', id)
  // Signed before the first line: where that cannot be, there is a failure and no export.
  return linesOf(parts, id, await signedHead(parts, id))
}

/** Every session's log and last that of the house, which says how many there were and what their heads add up to. */
export async function exportAll(parts: Writes & Pick<Parts, 'gate'>, actor: Actor): Promise<AsyncIterable<string>> {
  require(parts, actor, 'audit.all')
  await parts.gate.ensure()
  return lines()
  async function* lines() {
    let logs = 0
    let digest = firstDigest
    for await (const id of sessionIds(parts)) {
      const signed = await signedHead(parts, id)
      yield* linesOf(parts, id, signed)
      digest = nextDigest(sha256, digest, footerLine(...signed))
      logs++
    }
    transaction(parts, (tx) => tx.note({ type: 'exported', body: { logs, digest, ...by(actor) } }))
    yield* linesOf(parts, 'house', await signedHead(parts, 'house'))
  }
}

type Signed = readonly [head: Head, by: SignedHead]

async function* linesOf(parts: Reads, log: LogName, signed: Signed): AsyncIterable<string> {
  const [{ seq: last }] = signed
  yield headerLine(log)
  for (let after = 0; after < last;) {
    const page = parts.store.chains.lines(log, after, last)
    if (page.length === 0) throw new Failure('not_found', `The log of "${log}" ends before its head: it was purged meanwhile`)
    for (const { line } of page) yield line
    after = page.at(-1)!.seq
    await breathe()
  }
  yield footerLine(...signed)
}

/** Older events have their hashes before anything is signed. */
async function signedHead(parts: Reads & Pick<Parts, 'gate' | 'now'>, log: LogName): Promise<Signed> {
  if (log !== 'house') while (parts.store.chains.fill(log)) await breathe()
  const head = parts.store.chains.head(log)
  if (head === null) throw new Failure('not_found', `There is no log of "${log}"`)
  const whole: Head = { session: log, ...head, at: parts.now() }
  await parts.gate.ensure()
  return [whole, SignedHead.parse(await parts.gate.do({ do: 'sign', head: whole }))]
}

async function* sessionIds(parts: Reads): AsyncIterable<SessionId> {
  for (let after = ''; ;) {
    const page = parts.store.sessions.idsAfter(after, sessionsPerPage)
    yield* page
    if (page.length < sessionsPerPage) return
    after = page.at(-1)!
    await breathe()
  }
}
