import { errnoWords } from '@anchorhold/core/errno-words'
import { Failure } from '@anchorhold/protocol/failures'
import type { Command } from 'commander'
import { createWriteStream } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { ReadableStream } from 'node:stream/web'
import { type Context, whichSession } from '../context.ts'
import { path } from '../flags/values.ts'

export function exportLog(program: Command, context: Context): void {
  program
    .command('export')
    .summary('write a log with its hash chain and a signed head, for anchorhold verify FILE')
    .argument('[session]', `${whichSession}; left out with --all`)
    .argument('[file]', 'where to (default: standard output)', path)
    .option('--all', 'every log, and that of the house')
    .action(async (first: string | undefined, second: string | undefined, options: { all?: true }) => {
      if (first === undefined && !options.all)
        throw new Failure('bad_request', 'Which session is to be exported?', { hint: 'Name one, or say --all' })
      const daemon = await context.daemon()
      const { openLines } = await import('@anchorhold/protocol/client')
      const body = options.all
        ? await openLines(daemon.options, 'exportAll', {})
        : await openLines(daemon.options, 'exportSession', { params: { id: (await context.session(daemon, first!)).id } })
      const source = Readable.fromWeb(body as ReadableStream)
      const file = options.all ? first : second
      if (file === undefined) return pipeline(source, process.stdout, { end: false })
      await toFile(source, file)
      context.terminal.line(`Written to ${file}. Check it anywhere: anchorhold verify ${file}`)
    })
}

/** Written whole or not at all: half an export would look like one that was cut off. */
async function toFile(source: Readable, file: string): Promise<void> {
  const draft = `${file}.part`
  try {
    await pipeline(source, createWriteStream(draft, { mode: 0o600 }))
    await rename(draft, file)
  } catch (error) {
    await rm(draft, { force: true })
    throw new Failure('internal', `Cannot export to "${file}": ${errnoWords(error)}`)
  }
}
