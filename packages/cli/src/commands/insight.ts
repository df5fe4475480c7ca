import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { ago } from '../terminal.ts'
import { numberFrom } from '../flags/values.ts'

export function search(program: Command, context: Context): void {
  program
    .command('search')
    .summary('find words in everything that was said and done')
    .argument('<words...>')
    .option('-s, --session <session>', 'only in this one')
    .option('-l, --limit <n>', 'how many', numberFrom(1, 500), 20)
    .option('--json', 'one hit a line')
    .action(async (words: string[], options: { session?: string; limit: number; json?: true }) => {
      const daemon = await context.daemon()
      const session = options.session === undefined ? undefined : (await context.session(daemon, options.session)).id
      const { hits, sessions } = await daemon.api.search({
        query: { q: words.join(' '), limit: options.limit, ...(session === undefined ? {} : { session }) },
      })
      const { terminal } = context
      if (options.json) return hits.forEach((hit) => terminal.line(JSON.stringify(hit)))
      for (const { id, name, workspace } of sessions)
        terminal.line(`${id} ${terminal.foreign(name)} ${terminal.style('dim', terminal.foreign(workspace))}`)
      if (hits.length + sessions.length === 0) return terminal.line('Nothing found.')
      for (const hit of hits) {
        terminal.line(
          `${hit.session} #${hit.seq} ${terminal.style('dim', `${hit.type} · ${ago(hit.at)} · ${terminal.foreign(hit.session_name)}`)}`,
        )
        terminal.line(`    ${terminal.foreign(hit.snippet)}`)
      }
    })
}
