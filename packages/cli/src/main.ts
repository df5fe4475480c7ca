import { errnoWords } from '@anchorhold/core/errno-words'
import { isFailure } from '@anchorhold/protocol/failures'
import { CommanderError } from 'commander'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isAway } from './away.ts'
import { exitOfFailure } from './exit-codes.ts'
import { makeProgram } from './program.ts'
import { terminal as makeTerminal } from './terminal.ts'

const { version } = JSON.parse(readFileSync(join(dirname(fileURLToPath(import.meta.url)), '../package.json'), 'utf8')) as {
  version: string
}
const terminal = makeTerminal(process.stdout, process.stderr)

// A reader that went away (head, less) is no failure of ours. Whoever has something to clear away first listens for it.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') terminal.error(`anchorhold: Cannot write to standard output: ${errnoWords(error)}`)
  if (!process.emit('SIGPIPE', 'SIGPIPE')) process.exit(error.code === 'EPIPE' ? 0 : 1)
})

try {
  await makeProgram(terminal, version).parseAsync()
} catch (error) {
  terminal.still()
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : 2
  else if (isFailure(error)) {
    terminal.error(`${terminal.style('red', 'anchorhold:')} ${terminal.foreign(error.message)}`)
    if (error.hint !== undefined) terminal.error(`  ${terminal.foreign(error.hint)}`)
    process.exitCode = exitOfFailure(error.code)
  } else if (isAway(error)) {
    const said = error.name === 'Unanswered' ? error.message : 'The daemon does not answer'
    terminal.error(`${terminal.style('red', 'anchorhold:')} ${said}`)
    terminal.error('  Whether it was carried out is unknown: anchorhold status says whether the daemon is running')
    process.exitCode = 8
  } else {
    terminal.error(`anchorhold: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
    process.exitCode = 1
  }
}
