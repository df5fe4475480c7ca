import { counted } from '@anchorhold/core/counted'
import { spendingCsv } from '@anchorhold/core/spending-csv'
import type { BudgetView } from '@anchorhold/protocol/api/money'
import { Failure } from '@anchorhold/protocol/failures'
import { formatUsd, microsUp, parseUsd, whyNotUsd } from '@anchorhold/protocol/money'
import type { Session } from '@anchorhold/protocol/sessions'
import { type Command, Option } from 'commander'
import { type Context, whichSession } from '../context.ts'
import type { Daemon } from '../daemon.ts'
import { table } from '../terminal.ts'

const ways = ['session', 'group', 'day', 'model'] as const
const spans = ['life', 'day', 'tick'] as const
type BudgetFlags = { per: (typeof spans)[number]; json?: true }
type UsageFlags = { json?: true; by?: (typeof ways)[number]; csv?: true; since?: string }

export function usage(program: Command, context: Context): void {
  program
    .command('usage')
    .summary('what was spent')
    .argument('[session]', 'only this one')
    .addOption(new Option('--by <what>', 'summed up by session, group, day (UTC) or model').choices(ways))
    .option('--csv', 'as a table for a spreadsheet, by day unless it says otherwise; every sum is exact')
    .option('--since <day>', 'from this day on, as 2026-11-30 (UTC)')
    .option('--json', 'as JSON')
    .action(async (name: string | undefined, options: UsageFlags) => {
      const daemon = await context.daemon()
      const session = name === undefined ? undefined : (await context.session(daemon, name)).id
      const { terminal } = context
      const only = session === undefined ? {} : { session }
      if (options.by === undefined && options.csv === undefined && options.since === undefined) {
        const spent = await daemon.api.usage({ query: only })
        return options.json ? terminal.line(JSON.stringify(spent)) : showUsage(context, spent)
      }
      const by = options.by ?? 'day'
      const query = { by, ...only, ...(options.since === undefined ? {} : { since: options.since }) }
      const { spending } = await daemon.api.spending({ query })
      if (options.json) return terminal.line(JSON.stringify(spending))
      if (options.csv)
        return spendingCsv(by, spending)
          .trimEnd()
          .split('\r\n')
          .forEach((line) => terminal.line(terminal.foreign(line)))
      const rows = spending.map((one) => [
        one.key === '' ? (by === 'session' ? '(removed)' : '(none)') : terminal.foreign(one.key),
        formatUsd(one.cost_micros),
        counted(one.calls, 'call'),
        one.simulated ? terminal.style('dim', 'play') : '',
        terminal.foreign(one.name ?? ''),
      ])
      if (rows.length === 0) terminal.line(`Nothing was spent${options.since === undefined ? '' : ` since ${options.since}`}.`)
      for (const row of table(rows)) terminal.line(row)
    })
}

type Spent = Awaited<ReturnType<Awaited<ReturnType<Context['daemon']>>['api']['usage']>>

function showUsage({ terminal }: Context, spent: Spent): void {
  terminal.line(`${terminal.style('bold', formatUsd(spent.total.cost_micros))} in ${counted(spent.total.calls, 'call')}`)
  if (spent.simulated.calls > 0)
    terminal.line(
      terminal.style(
        'dim',
        `${formatUsd(spent.simulated.cost_micros)} of play money in ${counted(spent.simulated.calls, 'call')} to the rehearsal provider`,
      ),
    )
  const play = (simulated: boolean) => (simulated ? terminal.style('dim', 'play') : '')
  if (spent.days.length > 0) terminal.line()
  for (const row of table(
    spent.days.map((day) => [day.day, formatUsd(day.cost_micros), counted(day.calls, 'call'), play(day.simulated)]),
  ))
    terminal.line(row)
  if (spent.sessions.length > 0) terminal.line()
  for (const row of table(
    spent.sessions.map((one) => [one.id, formatUsd(one.cost_micros), play(one.simulated), terminal.foreign(one.name)]),
  ))
    terminal.line(row)
  for (const { cost_micros, calls, simulated } of spent.removed)
    terminal.line(
      terminal.style(
        'dim',
        `${formatUsd(cost_micros)}${simulated ? ' of play money' : ''} in ${counted(calls, 'call')} of removed sessions`,
      ),
    )
}

export function budget(program: Command, context: Context): void {
  program
    .command('budget')
    .summary('what a session, a group or the whole house may spend; without arguments, how far each has come')
    .argument('[whose]', `a session (${whichSession}), group/NAME, or owner for the whole house`)
    .argument('[usd]', 'as 0.50, or none; without it, shows how far it has come')
    .addOption(
      new Option('--per <span>', 'of a group or the house: for each day (UTC), for each tick, or over its whole life')
        .choices(spans)
        .default('life'),
    )
    .option('--json', 'as JSON')
    .action(async (whose: string | undefined, amount: string | undefined, { per, json }: BudgetFlags) => {
      const daemon = await context.daemon()
      const { terminal } = context
      const show = (budgets: readonly BudgetView[]) =>
        json ? terminal.line(JSON.stringify(budgets)) : showBudgets(context, budgets)
      const showSession = ({ id, cost_micros, budget_micros }: Session, words: string) =>
        terminal.line(json ? JSON.stringify({ session: id, cost_micros, budget_micros }) : words)
      if (whose === undefined) return show((await daemon.api.listBudgets()).budgets)
      const isSession = whose !== 'owner' && !whose.includes('/')
      if (amount === undefined) {
        if (!isSession) return show(await budgetsOf(daemon, whose))
        const session = await context.session(daemon, whose)
        return showSession(session, farWords(session))
      }
      const nanos = amount === 'none' ? null : parseUsd(amount)
      if (nanos === null && amount !== 'none')
        throw new Failure('bad_request', `"${amount}" ${whyNotUsd(amount)}`, { hint: 'Write it as 0.50, or none' })
      const budget_micros = nanos === null ? null : microsUp(nanos)
      if (!isSession) return show((await daemon.api.setBudget({ body: { node: whose, per, budget_micros } })).budgets)
      if (per !== 'life')
        throw new Failure('bad_request', 'A session has one budget for its whole life', {
          hint: 'Put it into a group: anchorhold run --group NAME "…"',
        })
      const { id } = await context.session(daemon, whose)
      const changed = await daemon.api.changeSession({ params: { id }, body: { budget_micros } })
      showSession(changed, `${id} may spend ${amount === 'none' ? 'without a limit' : `$${amount.replace('$', '')}`}`)
    })
}

async function budgetsOf({ api }: Daemon, node: string): Promise<BudgetView[]> {
  const found = (await api.listBudgets()).budgets.filter((one) => one.node === node)
  if (found.length > 0) return found
  throw new Failure('not_found', `Nothing was spent under "${node}", and it has no budget`, {
    hint: `Give it one: anchorhold budget ${node} 0.50`,
  })
}

/** How far a session has come. */
const farWords = ({ id, cost_micros, budget_micros }: Session) =>
  `${id}  ${formatUsd(cost_micros)}${budget_micros === null ? ', no limit' : ` of ${formatUsd(budget_micros)}`}`

function showBudgets({ terminal }: Context, budgets: readonly BudgetView[]): void {
  const part = ({ spent_micros, cap_micros }: BudgetView['life']) =>
    cap_micros === null ? `${formatUsd(spent_micros)}, no limit` : `${formatUsd(spent_micros)} of ${formatUsd(cap_micros)}`
  const rows = budgets.map((one) => [
    terminal.foreign(one.node),
    `today ${part(one.day)}`,
    `this tick ${part(one.tick)}`,
    `ever ${part(one.life)}`,
    one.simulated ? terminal.style('dim', 'play') : '',
  ])
  for (const row of table(rows)) terminal.line(row)
}
