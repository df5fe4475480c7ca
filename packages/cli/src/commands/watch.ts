import { counted } from '@anchorhold/core/counted'
import type { Command } from 'commander'
import { type Context, whichSession } from '../context.ts'
import { follow } from './follow.ts'
import { numberFrom } from '../flags/values.ts'

export function watch(program: Command, context: Context): void {
  program
    .command('watch')
    .summary('follow a session')
    .argument('<session>', whichSession)
    .option('--after <n>', 'begin after the event with this number', numberFrom(0), 0)
    .option('--json', 'one event a line')
    .action(async (name: string, options: { after: number; json?: true }) => {
      const daemon = await context.daemon()
      const session = await context.session(daemon, name)
      const last = session.state === 'archived' ? session.last_seq : undefined
      if (options.after > session.last_seq) {
        const then =
          last === undefined ? `waiting for what comes after number ${options.after}` : 'it is archived, and no more come'
        context.terminal.error(`${session.id} has only ${counted(session.last_seq, 'event')}; ${then}`)
      }
      if (last !== undefined && options.after >= last) return
      context.exit(
        await follow(context, {
          daemon,
          session: session.id,
          after: options.after,
          until: null,
          last,
          json: options.json ?? false,
        }),
      )
    })
}
