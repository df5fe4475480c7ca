import { withoutChanges } from '@anchorhold/core/changes-words'
import type { ChangedFile } from '@anchorhold/protocol/workspace'
import { type Command, Option } from 'commander'
import { type Context, whichSession } from '../context.ts'
import { table, type Terminal } from '../terminal.ts'

export function changes(program: Command, context: Context): void {
  program
    .command('changes')
    .summary('what a session has changed in its workspace')
    .description(
      'Shows which files differ from the last commit, or from what the session began with, untracked ones too. git runs in the cell, never here.',
    )
    .argument('<session>', whichSession)
    .addOption(
      new Option('--against <what>', 'the last commit, or what was checked out when the session began')
        .choices(['head', 'start'])
        .default('head'),
    )
    .option('-p, --patch', 'the changed lines as well')
    .option('--json', 'as JSON, with the changed lines')
    .action(async (name: string, options: { against: 'head' | 'start'; patch?: true; json?: true }) => {
      const daemon = await context.daemon()
      const { id } = await context.session(daemon, name)
      const { terminal } = context
      terminal.spin('looking into the cell')
      const found = await daemon.api.changes({ params: { id }, query: { against: options.against } })
      if (options.json) return terminal.line(JSON.stringify(found))
      if (!found.git)
        return terminal.line(
          `${withoutChanges[found.why]}${found.why === 'unreadable' ? `: ${terminal.foreign(found.message)}` : ''}.`,
        )
      const { branch, head, files, more } = found
      const since = head === null ? 'nothing' : `${head.hash.slice(0, 10)} ${terminal.foreign(head.subject)}`
      terminal.line(terminal.style('dim', `${branch === null ? '' : `on ${terminal.foreign(branch)}, `}held against ${since}`))
      if (files.length === 0) return terminal.line('Nothing has changed.')
      if (!options.patch) for (const row of table(files.map((file) => columns(terminal, file)))) terminal.line(row)
      else for (const file of files) showPatch(terminal, file)
      if (more) terminal.line(terminal.style('dim', 'There are more than are shown here.'))
    })
}

function columns(terminal: Terminal, file: ChangedFile): string[] {
  const { status, added, removed } = file
  const lines =
    added === null || removed === null
      ? terminal.style('dim', 'no text')
      : `${terminal.style('green', `+${added}`)} ${terminal.style('red', `-${removed}`)}`
  return [status, lines, nameOf(terminal, file)]
}

const nameOf = (terminal: Terminal, { path, from }: ChangedFile) =>
  from === null ? terminal.foreign(path) : `${terminal.foreign(from)} → ${terminal.foreign(path)}`

const colours = { '+': 'green', '-': 'red', '@': 'cyan' } as const

function showPatch(terminal: Terminal, file: ChangedFile): void {
  terminal.line(`${terminal.style('bold', nameOf(terminal, file))}  ${terminal.style('dim', file.status)}`)
  for (const line of (file.patch ?? '').split('\n')) {
    const colour = colours[line[0] as keyof typeof colours]
    const words = terminal.foreign(line)
    if (line !== '') terminal.line(colour === undefined ? words : terminal.style(colour, words))
  }
  if (file.patch === null) terminal.line(terminal.style('dim', file.binary ? 'no text' : 'its lines are too many to show'))
  else if (file.truncated) terminal.line(terminal.style('dim', 'There are more lines than are shown here.'))
}
