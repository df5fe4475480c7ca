import { formatUsd } from '@anchorhold/protocol/money'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { ago, table } from '../terminal.ts'

export function usage(program: Command, context: Context): void {
  program
    .command('usage')
    .summary('what was spent')
    .argument('[session]', 'only this one')
    .option('--json', 'as JSON')
    .action(async (name: string | undefined, options: { json?: true }) => {
      const daemon = await context.daemon()
      const session = name === undefined ? undefined : (await context.session(daemon, name)).id
      const spent = await daemon.api.usage({ query: session === undefined ? {} : { session } })
      const { terminal } = context
      if (options.json) return terminal.line(JSON.stringify(spent))
      terminal.line(`${terminal.style('bold', formatUsd(spent.total.cost_micros))} in ${spent.total.calls} calls`)
      if (spent.simulated.calls > 0)
        terminal.line(
          terminal.style(
            'dim',
            `${formatUsd(spent.simulated.cost_micros)} of play money in ${spent.simulated.calls} calls to the rehearsal provider`,
          ),
        )
      const play = (simulated: boolean) => (simulated ? terminal.style('dim', 'play') : '')
      if (spent.days.length > 0) terminal.line()
      for (const row of table(
        spent.days.map((day) => [day.day, formatUsd(day.cost_micros), `${day.calls} calls`, play(day.simulated)]),
      ))
        terminal.line(row)
      if (spent.sessions.length > 0) terminal.line()
      for (const row of table(
        spent.sessions.map((one) => [one.id, formatUsd(one.cost_micros), play(one.simulated), terminal.foreign(one.name)]),
      ))
        terminal.line(row)
    })
}

export function search(program: Command, context: Context): void {
  program
    .command('search')
    .summary('find words in everything that was said and done')
    .argument('<words...>')
    .option('-s, --session <session>', 'only in this one')
    .option('-l, --limit <n>', 'how many', '20')
    .option('--json', 'one hit a line')
    .action(async (words: string[], options: { session?: string; limit: string; json?: true }) => {
      const daemon = await context.daemon()
      const session = options.session === undefined ? undefined : (await context.session(daemon, options.session)).id
      const { hits } = await daemon.api.search({
        query: { q: words.join(' '), limit: Number(options.limit) || 20, ...(session === undefined ? {} : { session }) },
      })
      const { terminal } = context
      if (options.json) return hits.forEach((hit) => terminal.line(JSON.stringify(hit)))
      if (hits.length === 0) return terminal.line('Nothing found.')
      for (const hit of hits) {
        terminal.line(
          `${hit.session} #${hit.seq} ${terminal.style('dim', `${hit.type} · ${ago(hit.at)} · ${terminal.foreign(hit.session_name)}`)}`,
        )
        terminal.line(`    ${terminal.foreign(hit.snippet)}`)
      }
    })
}
