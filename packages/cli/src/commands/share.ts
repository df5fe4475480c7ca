import type { Share } from '@anchorhold/protocol/people'
import type { Command } from 'commander'
import { type Context, whichSession } from '../context.ts'

export function share(program: Command, context: Context): void {
  program
    .command('share')
    .summary('let a member work on a session, or show it to somebody')
    .argument('<session>', whichSession)
    .argument('[user]', 'who; without, only says who may')
    .option('--view', 'to look at, and no more')
    .action(async (name: string, user: string | undefined, options: { view?: true }) => {
      const daemon = await context.daemon()
      const { id } = await context.session(daemon, name)
      const { shares } =
        user === undefined
          ? await daemon.api.listShares({ params: { id } })
          : await daemon.api.shareSession({ params: { id, name: user }, body: { access: options.view ? 'view' : 'work' } })
      tell(shares)
    })
  program
    .command('unshare')
    .summary('take a session back from somebody; their open streams of it end')
    .argument('<session>')
    .argument('<user>')
    .action(async (name: string, user: string) => {
      const daemon = await context.daemon()
      const { id } = await context.session(daemon, name)
      const { shares } = await daemon.api.unshareSession({ params: { id, name: user } })
      tell(shares)
    })

  function tell(shares: readonly Share[]): void {
    if (shares.length === 0) return context.terminal.line('It is not shared with anybody.')
    for (const one of shares) context.terminal.line(`${one.name} may ${one.access === 'work' ? 'work on' : 'look at'} it.`)
  }
}
