import { type Audited, auditWords, houseWords } from '@anchorhold/core/audit-words'
import { AuditKind } from '@anchorhold/protocol/audit'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import type { Daemon } from '../daemon.ts'
import { numberFrom } from '../flags/values.ts'

const kinds = [...AuditKind.options, 'house']
type Options = { session?: string; since?: string; kind?: string; limit: number; key?: true; json?: true }

export function audit(program: Command, context: Context): void {
  program
    .command('audit')
    .summary('who decided, allowed, paid and changed what, and through which door')
    .option('-s, --session <session>', 'only this session')
    .option('--since <time>', 'a date, or 30m, 12h, 7d')
    .option('--kind <kind>', kinds.join(', '))
    .option('-l, --limit <n>', 'how many of the newest; the oldest of them comes first', numberFrom(1), 200)
    .option('--key', 'only print the fingerprint of the key that signs exports')
    .option('--json', 'one a line')
    .action(async (options: Options) => {
      const daemon = await context.daemon()
      const { terminal } = context
      if (options.key) return terminal.line((await daemon.api.signingKey()).fingerprint)
      const session = options.session === undefined ? null : (await context.session(daemon, options.session)).id
      const since = options.since === undefined ? 0 : timeOf(options.since)
      const limit = options.limit
      const ofSessions =
        options.kind === 'house' ? [] : await sessionEntries(daemon, { session, kind: options.kind, since, limit })
      const inHouse = session === null && (options.kind === undefined || options.kind === 'house')
      const ofHouse = inHouse ? await houseEntries(daemon, since, limit) : []
      const all = [...ofSessions, ...ofHouse].toSorted((a, b) => a.at - b.at).slice(-limit)
      for (const { at, log, words, event } of all) {
        if (options.json) terminal.line(JSON.stringify(event))
        else terminal.line(`${new Date(at).toISOString()}  ${log.padEnd(20)}  ${terminal.foreign(words)}`)
      }
      if (all.length === 0 && !options.json) terminal.line('Nothing found.')
    })
}

type Wanted = {
  readonly session: SessionId | null
  readonly kind: string | undefined
  readonly since: number
  readonly limit: number
}

async function sessionEntries({ api }: Daemon, { session, kind, since, limit }: Wanted): Promise<readonly Audited[]> {
  const wanted = kind === undefined ? undefined : AuditKind.safeParse(kind)
  if (wanted?.success === false)
    throw new Failure('bad_request', `"${kind}" is not a kind of audit entry`, { hint: `There are: ${kinds.join(', ')}` })
  const found: Audited[] = []
  for (let before: number | null | undefined; found.length < limit && before !== null;) {
    const page = await api.audit({
      query: {
        since,
        ...(session === null ? {} : { session }),
        ...(wanted === undefined ? {} : { kind: wanted.data }),
        ...(before === undefined ? {} : { before }),
      },
    })
    found.push(...page.entries.map(auditWords))
    before = page.before
  }
  return found
}

/** Only owners may read what is the house's. */
async function houseEntries({ api }: Daemon, since: number, limit: number): Promise<readonly Audited[]> {
  try {
    const { events } = await api.houseEvents({ query: { limit: Math.min(limit, 1000) } })
    return events.filter(({ at }) => at >= since).map(houseWords)
  } catch (error) {
    if (error instanceof Failure && error.code === 'forbidden') return []
    throw error
  }
}

const unitMs = { m: 60_000, h: 3_600_000, d: 86_400_000 } as const

function timeOf(text: string): number {
  const [, count, unit] = /^(\d{1,6})([mhd])$/.exec(text) ?? []
  const at = count === undefined ? Date.parse(text) : Date.now() - Number(count) * unitMs[unit as keyof typeof unitMs]
  if (Number.isNaN(at))
    throw new Failure('bad_request', `"${text}" is not a time`, { hint: 'Give a date such as 2026-11-15, or 30m, 12h, 7d' })
  return at
}
