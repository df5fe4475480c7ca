import { Failure } from '@anchorhold/protocol/failures'
import type { CredentialView } from '@anchorhold/protocol/api/secrets'
import type { Command } from 'commander'
import { text } from 'node:stream/consumers'
import { askSecret } from '../ask-secret.ts'
import type { Context } from '../context.ts'
import { ago, table } from '../terminal.ts'

export function secret(program: Command, context: Context): void {
  const command = program.command('secret').summary('secrets that are put into calls of cells, and never into cells')
  command
    .command('add')
    .summary('store a secret, encrypted; asks for it, or reads it from standard input')
    .argument('<name>')
    .option('--inside', 'let sessions be given it (run --secret): whatever runs in their cells can read it then')
    .action(async (name: string, options: { inside?: true }) => {
      const { api } = await context.daemonOrStart()
      const value = process.stdin.isTTY ? await askSecret(`${name} (not shown): `) : (await text(process.stdin)).trim()
      if (value === '') throw new Failure('bad_request', 'No secret was given', { hint: 'Type it, or pipe it in' })
      const stored = await api.putSecret({ params: { name }, body: { value, ...options } })
      const { terminal } = context
      terminal.line(
        `${terminal.style('green', '✓')} ${stored.name} (${terminal.foreign(stored.mask)}) is stored${stored.inside ? `, ${terminal.style('red', 'and cells may be given it')}` : ''}`,
      )
    })
  command
    .command('list')
    .alias('ls')
    .summary('secrets by name, and the endpoints that credentials.yaml binds them to')
    .option('--json', 'as JSON')
    .action(async (options: { json?: true }) => {
      const { api } = await context.daemon()
      const seen = await api.listSecrets()
      const { terminal } = context
      if (options.json) return terminal.line(JSON.stringify(seen))
      if (seen.secrets.length === 0) return terminal.line('There are no secrets.')
      const rows = seen.secrets.map((one) => [
        one.name,
        terminal.foreign(one.mask),
        one.inside ? terminal.style('red', 'inside') : '',
        ago(one.changed_at),
        seen.credentials
          .filter(({ secret: bound }) => bound === one.name)
          .map((bound) => terminal.foreign(endpoint(bound)))
          .join(', '),
      ])
      for (const row of table(rows)) terminal.line(row)
    })
  command
    .command('remove')
    .alias('rm')
    .summary('forget a secret')
    .argument('<name>')
    .action(async (name: string) => {
      const { api } = await context.daemon()
      await api.deleteSecret({ params: { name } })
      context.terminal.line(`${name} is forgotten.`)
    })
  command
    .command('rotate-key')
    .summary('encrypt all secrets and the keys of providers anew, under a new key')
    .action(async () => {
      const { api } = await context.daemon()
      const { resealed } = await api.rotateKey()
      context.terminal.line(`${resealed} are under a new key.`)
    })
}

const endpoint = ({ host, port, method, path }: CredentialView): string =>
  `${method === undefined ? '' : `${method.join('|')} `}${host}${port === 443 ? '' : `:${port}`}${path ?? ''}`
