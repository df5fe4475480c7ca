import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { ago, table } from '../terminal.ts'
import { numberFrom } from '../flags/values.ts'

export function token(program: Command, context: Context): void {
  const command = program.command('token').summary('tokens for programs, and logins of browsers')
  command
    .command('add')
    .alias('create')
    .summary('make a token; it is shown once')
    .argument('<name>', 'what it is for')
    .option('--days <n>', 'how many days it is valid (default: for good)', numberFrom(1))
    .option('--user <user>', 'whose it is (default: yours)')
    .action(async (name: string, options: { days?: number; user?: string }) => {
      const { api } = await context.daemonOrStart()
      const { secret } = await api.createToken({
        body: {
          name,
          ...(options.days === undefined ? {} : { days: options.days }),
          ...(options.user === undefined ? {} : { user: options.user }),
        },
      })
      context.terminal.line(secret)
    })
  command
    .command('ls')
    .summary('list tokens and logins')
    .option('--json', 'as JSON')
    .action(async (options: { json?: true }) => {
      const { api } = await context.daemon()
      const { tokens } = await api.listTokens()
      if (options.json) return context.terminal.line(JSON.stringify(tokens))
      const rows = tokens.map((one) => [
        one.id,
        one.user,
        one.kind,
        one.used_at === null ? 'never used' : `used ${ago(one.used_at)}`,
        context.terminal.foreign(one.name),
      ])
      for (const row of table(rows)) context.terminal.line(row)
    })
  command
    .command('revoke')
    .summary('revoke a token or a login; its open streams end')
    .argument('<id>')
    .action(async (id: string) => {
      const { api } = await context.daemon()
      await api.revokeToken({ params: { id } })
      context.terminal.line(`${id} is revoked.`)
    })
  program
    .command('login-link')
    .summary('make a link that logs one browser in, once')
    .action(async () => {
      const { api } = await context.daemonOrStart()
      const { url } = await api.createLoginLink()
      context.terminal.line(url)
    })
}
