import { sizeWords } from '@anchorhold/core/size-words'
import type { NetHost } from '@anchorhold/protocol/api/records'
import type { Command } from 'commander'
import { type Context, whichSession } from '../context.ts'
import { ago, table, type Terminal } from '../terminal.ts'

export function net(program: Command, context: Context): void {
  program
    .command('net')
    .summary('what a session has reached, and what was blocked')
    .argument('<session>', whichSession)
    .option('--json', 'as JSON')
    .action(async (name: string, options: { json?: true }) => {
      const daemon = await context.daemon()
      const session = await context.session(daemon, name)
      const seen = await daemon.api.sessionNet({ params: { id: session.id } })
      const { terminal } = context
      if (options.json) return terminal.line(JSON.stringify(seen))
      if (seen.network === 'host') terminal.line(terminal.style('red', 'network host: what this agent reaches is not looked at'))
      if (seen.network === 'none') terminal.line('network none: only the model can be reached')
      if (seen.hosts.length === 0) return seen.network === 'proxy_only' ? terminal.line('Nothing has left.') : undefined
      const head = ['host', 'out', 'in', 'calls', 'blocked', 'last'].map((word) => terminal.style('dim', word))
      for (const row of table([head, ...seen.hosts.map((host) => columns(terminal, host))])) terminal.line(row)
      for (const host of seen.hosts)
        if (host.blocked > 0)
          terminal.line(terminal.style('dim', `blocked ${placeWord(terminal, host)}: ${terminal.foreign(host.why ?? '')}`))
    })
}

function columns(terminal: Terminal, host: NetHost): string[] {
  const used = host.secrets.map(({ name, count }) => `${terminal.foreign(name)} ×${count}`).join(', ')
  return [
    placeWord(terminal, host),
    sizeWords(host.bytes_out),
    sizeWords(host.bytes_in),
    String(host.connections),
    host.blocked === 0 ? '' : terminal.style('red', String(host.blocked)),
    ago(host.last_at),
    used,
  ]
}

const placeWord = (terminal: Terminal, { host, port }: NetHost) =>
  host === null ? '(others)' : `${terminal.foreign(host)}:${port}`
