import { Failure } from '@anchorhold/protocol/failures'
import type { PutProvider } from '@anchorhold/protocol/api/providers'
import type { Command } from 'commander'
import { text } from 'node:stream/consumers'
import { askSecret } from '../ask-secret.ts'
import type { Context } from '../context.ts'
import { path } from '../flags/values.ts'
import { table } from '../terminal.ts'

type AddOptions = {
  kind?: string
  url?: string
  env?: string
  file?: string
  oauth?: true
  key?: true
  none?: true
  model?: string
  test: boolean
  use: boolean
}

export function provider(program: Command, context: Context): void {
  const command = program.command('provider').summary('where model calls go')
  command
    .command('add')
    .summary('add a provider; asks for its key, tries it, and stores it encrypted')
    .argument('<name>', 'anthropic, openrouter, local, or a name of your own with --kind')
    .option('--kind <kind>', 'anthropic, openrouter or local')
    .option('--url <url>', 'the address of a local, Anthropic-compatible server')
    .option('--env <name>', "take the credential from the daemon's environment, whenever it is needed")
    .option('--file <path>', 'take the credential from a file, whenever it is needed', path)
    .option('--oauth', 'the credential is the token of your own login, not an API key')
    .option('--key', 'a local server that wants a key: ask for it, or read it from standard input')
    .option('--none', 'it needs no credential')
    .option('--model <id>', 'the model of sessions that name none')
    .option('--no-test', 'store it without a test call')
    .option('--no-use', 'do not make it the one that sessions use')
    .action(async (name: string, options: AddOptions) => {
      const kind = options.kind ?? name
      if (kind !== 'anthropic' && kind !== 'openrouter' && kind !== 'local') {
        throw new Failure('bad_request', `"${kind}" is not a kind of provider`, {
          hint: 'Use --kind anthropic, openrouter or local',
        })
      }
      if (options.url !== undefined && !URL.canParse(options.url))
        throw new Failure('bad_request', `"${options.url}" is not an address`, { hint: 'Write it as http://localhost:8080' })
      const { api } = await context.daemonOrStart()
      const body: PutProvider = {
        kind,
        credential: await credential(kind, options),
        test: options.test,
        use: options.use,
        ...(options.url === undefined ? {} : { base_url: options.url }),
        ...(options.oauth ? { auth: 'oauth' as const } : {}),
        ...(options.model === undefined ? {} : { model: options.model }),
      }
      context.terminal.spin('making a test call')
      const { provider: added, verdict } = await api.putProvider({ params: { name }, body })
      const { terminal } = context
      terminal.line(
        `${terminal.style('green', '✓')} ${added.name} (${added.kind}, ${added.model}) is stored${verdict === null ? ', untested' : `: ${terminal.foreign(verdict.message)}`}`,
      )
      if (added.in_use) terminal.line('  New sessions use it.')
    })
  command
    .command('ls')
    .summary('list providers')
    .option('--json', 'one a line')
    .action(async (options: { json?: true }) => {
      const { api } = await context.daemon()
      const { providers } = await api.listProviders()
      const { terminal } = context
      if (options.json) return providers.forEach((one) => terminal.line(JSON.stringify(one)))
      const rows = providers.map((one) => [
        one.in_use ? terminal.style('green', '●') : ' ',
        one.name,
        one.kind,
        one.model,
        one.base_url ?? '',
        `credential: ${one.credential}`,
      ])
      for (const row of table(rows)) terminal.line(row)
    })
  command
    .command('use')
    .summary('make it the provider of sessions that name none')
    .argument('<name>')
    .action(async (name: string) => {
      const { api } = await context.daemon()
      const used = await api.useProvider({ params: { name } })
      context.terminal.line(`New sessions use ${used.name}.`)
    })
  command
    .command('test')
    .summary('make one small call')
    .argument('<name>')
    .option('--json', 'as JSON')
    .action(async (name: string, options: { json?: true }) => {
      const { api } = await context.daemon()
      const told = await api.testProvider({ params: { name } })
      context.terminal.line(options.json ? JSON.stringify(told) : context.terminal.foreign(told.message))
      context.exit(told.verdict === 'ok' ? 0 : 1)
    })
  command
    .command('rm')
    .summary('forget a provider and its credential')
    .argument('<name>')
    .action(async (name: string) => {
      const { api } = await context.daemon()
      await api.deleteProvider({ params: { name } })
      context.terminal.line(`${name} is forgotten.`)
    })
}

async function credential(kind: string, options: AddOptions): Promise<PutProvider['credential']> {
  if (options.env !== undefined) return { from: 'env', name: options.env }
  if (options.file !== undefined) return { from: 'file', path: options.file }
  if (options.none || (kind === 'local' && !options.key)) return { from: 'none' }
  const key = process.stdin.isTTY
    ? await askSecret(`${options.oauth ? 'Token' : 'API key'} (not shown): `)
    : (await text(process.stdin)).trim()
  if (key === '')
    throw new Failure('bad_request', 'No key was given', { hint: 'Type it, pipe it in, or use --env NAME or --file PATH' })
  return { from: 'key', key }
}
