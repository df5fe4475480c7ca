import { counted } from '@anchorhold/core/counted'
import type { Event } from '@anchorhold/protocol/events'
import { formatUsd } from '@anchorhold/protocol/money'
import type { Session, SessionState } from '@anchorhold/protocol/sessions'
import type { Command } from 'commander'
import { allSessions } from '../all-sessions.ts'
import { type Context, whichSession } from '../context.ts'
import type { Daemon } from '../daemon.ts'
import { summary } from '../show-events.ts'
import { ago, table, type Terminal } from '../terminal.ts'
import { numberFrom } from '../flags/values.ts'

const colours = {
  creating: 'cyan',
  ready: 'green',
  working: 'blue',
  waiting: 'yellow',
  paused: 'yellow',
  stopped: 'dim',
  interrupted: 'red',
  failed: 'red',
  archived: 'dim',
} as const satisfies Record<SessionState, string>

export function ls(program: Command, context: Context): void {
  program
    .command('ls')
    .summary('list sessions')
    .option('-a, --archived', 'the archived ones')
    .option('--json', 'one session a line')
    .action(async (options: { archived?: true; json?: true }) => {
      const { terminal } = context
      const sessions = await allSessions(await context.daemon(), { archived: options.archived ?? false })
      if (options.json) return sessions.forEach((session) => terminal.line(JSON.stringify(session)))
      if (sessions.length === 0)
        return terminal.line(options.archived ? 'No session is archived.' : 'No sessions yet. Start one: anchorhold run "…"')
      const rows = sessions.map((session) => [
        session.id,
        terminal.style(colours[session.state], session.state),
        `${rungWord(terminal, session)}${session.secrets_inside.length === 0 ? '' : terminal.style('red', ' +secrets')}`,
        costWord(session),
        ago(session.active_at),
        terminal.foreign(session.name),
      ])
      for (const row of table(rows)) terminal.line(row)
    })
}

export function show(program: Command, context: Context): void {
  program
    .command('show')
    .summary('show a session and its last events')
    .argument('<session>', whichSession)
    .option('-l, --limit <n>', 'how many events', numberFrom(1, 500), 20)
    .option('--json', 'the session as JSON')
    .action(async (name: string, options: { limit: number; json?: true }) => {
      const daemon = await context.daemon()
      const session = await context.session(daemon, name)
      const { terminal } = context
      if (options.json) return terminal.line(JSON.stringify(session))
      const fields: [string, string][] = [
        ['session', session.id],
        ['name', terminal.foreign(session.name)],
        [
          'state',
          `${terminal.style(colours[session.state], session.state)}${session.why === null ? '' : ` (${terminal.foreign(session.why)})`}`,
        ],
        ['rung', rungWord(terminal, { ...session, network: 'none' })],
        ['network', session.network === 'host' ? terminal.style('red', 'host') : session.network],
        ...(session.secrets_inside.length === 0
          ? []
          : [['secrets inside', terminal.style('red', session.secrets_inside.join(', '))] satisfies [string, string]]),
        ['provider', `${session.provider} · ${session.model}${session.simulated ? ' (rehearsal: no model is called)' : ''}`],
        ['workspace', terminal.foreign(session.workspace)],
        ['cost', `${costWord(session)}${session.budget_micros === null ? '' : ` of ${formatUsd(session.budget_micros)}`}`],
        ['turns', `${session.turns}, ${counted(session.last_seq, 'event')}, active ${ago(session.active_at)}`],
        ...session.limits.map((limit): [string, string] => [
          `limit ${limit.name}`,
          `${limit.value}, ${limit.enforcement} (${limit.how})`,
        ]),
      ]
      for (const row of table(fields.map(([key, value]) => [terminal.style('dim', key), value]))) terminal.line(row)
      terminal.line()
      for (const { seq, words } of await lastWords(daemon, session, options.limit, (event) => summary(terminal, event)))
        terminal.line(`${terminal.style('dim', String(seq).padStart(5))}  ${words.replaceAll('\n', '\n       ')}`)
    })
}

type Words = { readonly seq: number; readonly words: string }

/** The last events of a session that there is something to say of, in their order. */
async function lastWords(
  { api }: Daemon,
  { id, last_seq }: Session,
  limit: number,
  wordsOf: (event: Event) => string | null,
): Promise<Words[]> {
  let found: Words[] = []
  for (let before = last_seq + 1, pages = 0; found.length < limit && pages < pagesMax; pages++) {
    const { events, more } = await api.sessionEvents({ params: { id }, query: { before, limit: pageMax } })
    const said = events.flatMap((event) => {
      const words = wordsOf(event)
      return words === null ? [] : [{ seq: event.seq, words }]
    })
    found = [...said, ...found]
    if (!more || events[0] === undefined) break
    before = events[0].seq
  }
  return found.slice(-limit)
}
const pageMax = 200
const pagesMax = 20

const rungWord = (terminal: Terminal, { rung, network }: Session) => {
  if (rung === 'none') return terminal.style('red', 'none')
  return network === 'host' ? `${rung} ${terminal.style('red', 'network host')}` : rung
}
const costWord = ({ cost_micros, simulated }: Session) => `${formatUsd(cost_micros)}${simulated ? ' play' : ''}`
