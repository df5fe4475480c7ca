import { sizeWords } from '@anchorhold/core/size-words'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { ago, table } from '../terminal.ts'

export function cache(program: Command, context: Context): void {
  const { terminal } = context
  const command = program.command('cache').summary('downloads that sessions of one folder share')
  command
    .command('list')
    .summary('whose they are, and what they take')
    .option('--json', 'as JSON')
    .action(async (options: { json?: true }) => {
      const { api } = await context.daemon()
      const { caches } = await api.listCaches()
      if (options.json) return terminal.line(JSON.stringify(caches))
      if (caches.length === 0) return terminal.line('No session has shared a download yet.')
      for (const row of table(
        caches.map((one) => [
          one.id,
          terminal.foreign(one.owner),
          terminal.foreign(one.workspace),
          sizeWords(one.size_bytes),
          one.in_use ? terminal.style('green', 'in use') : `used ${ago(one.used_at)}`,
        ]),
      ))
        terminal.line(row)
    })
  command
    .command('clear')
    .summary('clear one, or all that no session works with')
    .argument('[id]', 'as anchorhold cache list shows it')
    .action(async (id: string | undefined) => {
      const { api } = await context.daemon()
      const { cleared } = await api.clearCaches({ body: id === undefined ? {} : { id } })
      terminal.line(`${cleared} ${cleared === 1 ? 'cache is' : 'caches are'} cleared.`)
    })
}
