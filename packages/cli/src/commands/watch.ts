import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { follow } from './follow.ts'

export function watch(program: Command, context: Context): void {
  program
    .command('watch')
    .summary('follow a session')
    .argument('<session>', 'its id, the beginning of its id, or last')
    .option('--after <n>', 'begin after the event with this number', '0')
    .option('--json', 'one event a line')
    .action(async (name: string, options: { after: string; json?: true }) => {
      const daemon = await context.daemon()
      const session = await context.session(daemon, name)
      context.exit(
        await follow(context, {
          daemon,
          session: session.id,
          after: Number(options.after) || 0,
          until: null,
          json: options.json ?? false,
        }),
      )
    })
}
