import type { Event } from '@anchorhold/protocol/events'
import type { PromptId } from '@anchorhold/protocol/ids'
import type { Session } from '@anchorhold/protocol/sessions'
import type { Command } from 'commander'
import { randomUUID } from 'node:crypto'
import { type Context, whichSession } from '../context.ts'
import type { Daemon } from '../daemon.ts'
import { keepInterrupts } from '../interrupts.ts'
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
        using interrupts = options.detach ? null : keepInterrupts()
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
            after: options.key === undefined ? session.last_seq : await beforePrompt(daemon, session, receipt.id),
            until: receipt.id,
            interrupts: interrupts ?? undefined,
            json: options.json ?? false,
          }),
        )
      },
    )
}

/** The number before the event that queued it. Under a key that was used before, that may be long ago. */
async function beforePrompt({ api }: Daemon, { id, last_seq }: Session, prompt: PromptId): Promise<number> {
  const later = await api.sessionEvents({ params: { id }, query: { after: last_seq, limit: 100 } })
  if (later.events.some(isQueued)) return last_seq
  for (let before = last_seq + 1; before > 1;) {
    const { events } = await api.sessionEvents({ params: { id }, query: { before, limit: 500 } })
    const queued = events.find(isQueued)
    if (queued !== undefined) return queued.seq - 1
    if (events.length === 0) break
    before = events[0]!.seq
  }
  return last_seq

  function isQueued(event: Event): boolean {
    return event.type === 'prompt.queued' && event.body.id === prompt
  }
}
