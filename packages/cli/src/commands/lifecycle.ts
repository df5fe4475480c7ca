import { Failure } from '@anchorhold/protocol/failures'
import { PromptId, type SessionId } from '@anchorhold/protocol/ids'
import { Autonomy } from '@anchorhold/protocol/policy'
import type { Session } from '@anchorhold/protocol/sessions'
import { Argument, type Command } from 'commander'
import { randomUUID } from 'node:crypto'
import { type Context, whichSession } from '../context.ts'
import type { Daemon } from '../daemon.ts'

/** The verbs that move a session from one state to another and say where it is now. */
const verbs = {
  pause: 'start no new model call or tool; running ones finish',
  resume: 'go on after a pause',
  stop: 'end its cell; the workspace stays',
  start: 'make a stopped session ready again',
  archive: 'end it for good; it becomes read-only',
} as const

export function lifecycle(program: Command, context: Context): void {
  for (const [verb, summary] of Object.entries(verbs) as [keyof typeof verbs, string][]) {
    program
      .command(verb)
      .summary(summary)
      .argument('<session>', whichSession)
      .action(async (name: string) => {
        const daemon = await context.daemon()
        const { id } = await context.session(daemon, name)
        tellState(context, await daemon.api[verb]({ params: { id } }))
      })
  }
  program
    .command('interrupt')
    .summary('end the running turn')
    .argument('<session>', whichSession)
    .option('--drop-queued', 'drop the prompts that wait, too')
    .action(async (name: string, options: { dropQueued?: true }) => {
      const daemon = await context.daemon()
      const { id } = await context.session(daemon, name)
      tellState(context, await daemon.api.interrupt({ params: { id }, body: { drop_queued: options.dropQueued ?? false } }))
    })
  program
    .command('unqueue')
    .summary('take back a prompt that waits')
    .argument('<session>', whichSession)
    .argument('[prompt]', 'its id, as send --detach prints it; the newest that waits otherwise')
    .action(async (name: string, prompt: string | undefined) => {
      const daemon = await context.daemon()
      const { id } = await context.session(daemon, name)
      const named = prompt === undefined ? await newestQueued(daemon, id) : PromptId.safeParse(prompt).data
      if (named === undefined) throw new Failure('bad_request', `"${prompt}" is not the id of a prompt`)
      if (named === null) throw new Failure('conflict', `Cannot take back a prompt of session "${id}": none waits`)
      const session = await daemon.api.dropPrompt({ params: { id, prompt: named } })
      context.terminal.line(`${id} has ${session.queued_prompts} queued`)
    })
  program
    .command('fork')
    .summary('a new session with a copy of the conversation and the workspace')
    .description(
      'Makes a new session that goes on from where this one stands, or from where it stood at one of its events. The files are always those of now, in a copy of its own unless it shares the folder.',
    )
    .argument('<session>', whichSession)
    .option('-n, --name <name>', 'its name')
    .option('--at <event>', 'the number of the last event that it is to know of (anchorhold show prints them)')
    .option('--share-workspace', 'work in the same folder, as the same user, instead of in a copy')
    .option('--key <key>', 'an idempotency key: the same key makes one fork')
    .option('--json', 'the new session as JSON')
    .action(async (name: string, options: { name?: string; at?: string; shareWorkspace?: true; key?: string; json?: true }) => {
      if (options.at !== undefined && !/^[1-9]\d{0,14}$/.test(options.at))
        throw new Failure('bad_request', `"${options.at}" is not the number of an event`, { hint: 'anchorhold show prints them' })
      const daemon = await context.daemon()
      const { id } = await context.session(daemon, name)
      const session = await daemon.api.fork({
        params: { id },
        body: {
          ...(options.name === undefined ? {} : { name: options.name }),
          ...(options.at === undefined ? {} : { at: Number(options.at) }),
          ...(options.shareWorkspace ? { share_workspace: true } : {}),
          idempotency_key: options.key ?? randomUUID(),
        },
      })
      context.terminal.line(options.json ? JSON.stringify(session) : session.id)
    })
  program
    .command('rename')
    .summary('give a session another name')
    .argument('<session>', whichSession)
    .argument('<name>', 'the new one')
    .action(async (session: string, name: string) => {
      const daemon = await context.daemon()
      const { id } = await context.session(daemon, session)
      const renamed = await daemon.api.changeSession({ params: { id }, body: { name } })
      context.terminal.line(`${id} is called ${context.terminal.foreign(renamed.name)}`)
    })
  program
    .command('model')
    .summary('change the model of a session')
    .argument('<session>', whichSession)
    .argument('<model>', 'its id')
    .action(async (name: string, model: string) => {
      const daemon = await context.daemon()
      const { id } = await context.session(daemon, name)
      const session = await daemon.api.changeSession({ params: { id }, body: { model } })
      context.terminal.line(`${id} uses ${session.model}`)
    })
  program
    .command('autonomy')
    .summary('change how freely the agent of a session uses its tools')
    .argument('<session>', whichSession)
    .addArgument(new Argument('<level>', 'full, supervised, restricted or read_only').choices(Autonomy.options))
    .action(async (name: string, autonomy: Autonomy) => {
      const daemon = await context.daemon()
      const { id } = await context.session(daemon, name)
      await daemon.api.changeSession({ params: { id }, body: { autonomy } })
      context.terminal.line(`${id} works with autonomy ${autonomy}`)
    })
  program
    .command('purge')
    .summary('remove an archived session for good, with its log and workspace')
    .argument('<session>', 'its whole id')
    .requiredOption('--confirm <session>', 'the same id once more')
    .action(async (name: string, options: { confirm: string }) => {
      const daemon = await context.daemon()
      await daemon.api.purgeSession({ params: { id: name }, body: { confirm: options.confirm } })
      context.terminal.line(`${name} is gone`)
    })
}

/** Where it is now, and why where nobody has asked for that. */
function tellState({ terminal }: Context, { id, state, why }: Session): void {
  const isUnasked = state === 'interrupted' || state === 'failed'
  terminal.line(`${id} is ${state}${isUnasked && why !== null ? `: ${terminal.foreign(why)}` : ''}`)
}

const lookBackEvents = 500

/** The newest prompt that was queued and neither handed on nor dropped since, as far back as one looks. */
async function newestQueued({ api }: Daemon, id: SessionId): Promise<PromptId | null> {
  const { events } = await api.sessionEvents({
    params: { id },
    query: { before: Number.MAX_SAFE_INTEGER, limit: lookBackEvents },
  })
  const waiting: PromptId[] = []
  for (const { type, body } of events) {
    if (type === 'prompt.queued') waiting.push(body.id)
    if (type === 'prompt' || type === 'prompt.dropped') waiting.splice(waiting.indexOf(body.id) >>> 0, 1)
  }
  return waiting.at(-1) ?? null
}
