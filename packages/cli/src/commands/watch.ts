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
      const few = `${session.id} has only ${counted(session.last_seq, 'event')}`
      const isBeyond = options.after > session.last_seq
      if (last !== undefined && options.after >= last) {
        if (isBeyond) context.terminal.error(`${few}; it is archived, and no more come`)
        return
      }
      context.exit(
        await follow(context, {
          daemon,
          session: session.id,
          after: options.after,
          until: null,
          last,
          first: isBeyond ? `${few}; waiting for what comes after number ${options.after}` : undefined,
          json: options.json ?? false,
        }),
      )
    })
}
