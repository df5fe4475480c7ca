import type { Command } from 'commander'
import { randomUUID } from 'node:crypto'
import { type Context, whichSession } from '../context.ts'
import { follow } from './follow.ts'
import { readImages, readPrompt } from './prompt-input.ts'
import { collectPaths } from '../flags/values.ts'

export function send(program: Command, context: Context): void {
  program
    .command('send')
    .summary('send a prompt to a session, and follow the turn')
    .description('Sends a prompt. A turn that is running gets it at its next step, or after its end with --queue.')
    .argument('<session>', whichSession)
    .argument('<prompt...>', 'what the agent is to do; - reads it from standard input')
    .option('-q, --queue', 'wait for the end of the running turn')
    .option('-i, --attach <file>', 'an image for the prompt; may be given several times', collectPaths, [])
    .option('-d, --detach', 'return as soon as it is stored')
    .option('--key <key>', 'an idempotency key: the same key sends once')
    .option('--json', 'one event a line')
    .action(
      async (
        name: string,
        words: string[],
        options: { queue?: true; attach: string[]; detach?: true; key?: string; json?: true },
      ) => {
        const text = await readPrompt(words)
        const images = readImages(options.attach)
        const daemon = await context.daemonOrStart()
        const session = await context.session(daemon, name)
        const receipt = await daemon.api.prompt({
          params: { id: session.id },
          body: {
            text,
            ...(images.length === 0 ? {} : { images }),
            ...(options.queue ? { mode: 'queue' as const } : {}),
            idempotency_key: options.key ?? randomUUID(),
          },
        })
        if (options.detach) return context.terminal.line(options.json ? JSON.stringify(receipt) : receipt.id)
        context.exit(
          await follow(context, {
            daemon,
            session: session.id,
            after: session.last_seq,
            until: receipt.id,
            json: options.json ?? false,
          }),
        )
      },
    )
}
