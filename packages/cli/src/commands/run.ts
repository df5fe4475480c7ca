import { microsUp, type Nanos } from '@anchorhold/protocol/money'
import { Autonomy } from '@anchorhold/protocol/policy'
import { Rung } from '@anchorhold/protocol/rungs'
import { Network, OnCrash, Spend, limits } from '@anchorhold/protocol/sessions'
import { Option, type Command } from 'commander'
import { randomUUID } from 'node:crypto'
import type { Context } from '../context.ts'
import { type AccessFlags, accessOf, withAccess } from '../flags/access.ts'
import { repoFilterOf, type RepoFilterFlags, withRepoFilter } from '../flags/repo-filter.ts'
import { follow } from './follow.ts'
import { readImages, readPrompt } from './prompt-input.ts'
import { fromHere } from '../here.ts'
import { keepInterrupts } from '../interrupts.ts'
import { collectPaths, collect, numberFrom, path, usd } from '../flags/values.ts'

type Options = RepoFilterFlags &
  AccessFlags & {
    workspace?: string
    rung?: Rung
    image?: string
    gpu?: true
    sudo?: true
    nested?: true
    provider?: string
    model?: string
    budget?: Nanos
    group?: string
    policy?: string
    observe?: true
    key?: string
    name?: string
    tools?: string
    systemPrompt?: string
    timeout?: number
    onCrash?: OnCrash
    autonomy?: Autonomy
    spend?: Spend
    network?: Network
    repo?: string
    attach: string[]
    toolchain: string[]
    secret: string[]
    plan?: true
    loadSettings?: true
    detach?: true
    json?: true
  }

export function run(program: Command, context: Context): void {
  withAccess(withRepoFilter(program.command('run')), { copy: '', acl: 'when the session is archived' })
    .summary('start a session with a prompt, and follow its turn')
    .description('Starts a session in a cell of its own and follows its first turn. Starts the daemon when none runs.')
    .argument('<prompt...>', 'what the agent is to do; - reads it from standard input')
    .option('-w, --workspace <dir>', 'the folder to work in (default: a new, empty one)', path)
    .addOption(new Option('-r, --rung <rung>', 'how strong the cell must be').choices(Rung.options))
    .addOption(
      new Option(
        '--network <which>',
        'what the cell reaches: nothing, what rules open, or (rungs none and bwrap, where the policy allows it) all that this machine does',
      ).choices(Network.options),
    )
    .option('--repo <owner/name>', 'the repository that it may push to (default: the one that the folder came from)')
    .option('--gpu', 'give a container every GPU of the machine')
    .option('--sudo', 'give a container a root inside, which is nobody outside')
    .option('--nested', 'let a container start containers of its own')
    .option('--image <name>', 'the image of a container or a machine (anchorhold image ls)')
    .option('-p, --provider <name>', 'where model calls go')
    .option('-m, --model <id>', 'the model')
    .option('-b, --budget <usd>', 'what the session may spend, as 0.50', usd)
    .option('-g, --group <name>', 'the group whose budget it spends out of, beside its own')
    .option('-n, --name <name>', 'a name for the session')
    .option('--policy <name>', "hold it to this policy beside the house's own (anchorhold policy show)")
    .option('--observe', 'do and write down what would be asked for, so that a policy can be made of it')
    .option('--key <key>', 'an idempotency key: the same key starts one session')
    .option('--tools <names>', 'the tools that the agent has, separated by commas')
    .option('--system-prompt <text>', "appended to the agent's own")
    .option('--timeout <seconds>', 'interrupt the turn after so long', numberFrom(1, limits.timeoutMsMax / 1000))
    .addOption(
      new Option('--spend <what>', 'when the budget does not hold a model call: stop, or ask you for up to five minutes').choices(
        Spend.options,
      ),
    )
    .addOption(
      new Option('--on-crash <what>', 'when a crash cuts a turn short: wait for you, or resume it').choices(OnCrash.options),
    )
    .addOption(new Option('--autonomy <level>', 'how freely the agent uses its tools').choices(Autonomy.options))
    .option('-i, --attach <file>', 'an image for the prompt; may be given several times', collectPaths, [])
    .option('--toolchain <name>', 'mount a toolchain of yours read-only (anchorhold doctor names them)', collect, [])
    .option(
      '--secret <name>',
      'give the cell a secret that is marked for it (secret add --inside); its programs can read it',
      collect,
      [],
    )
    .option('--plan', 'have the agent ask for approval of its plan first')
    .option(
      '--load-settings',
      "let the workspace's own .claude settings, hooks and .mcp.json apply inside the cell, where they run unasked",
    )
    .option('-d, --detach', 'print the session id and return at once')
    .option('--json', 'one event a line')
    .action(async (words: string[], options: Options) => {
      const prompt = await readPrompt(words)
      const images = readImages(options.attach)
      const daemon = await context.daemonOrStart()
      const access = accessOf(options) ?? undefined
      using interrupts = options.detach ? null : keepInterrupts()
      const session = await daemon.api.createSession({
        body: {
          prompt: { text: prompt, ...(images.length === 0 ? {} : { images }) },
          ...defined({
            name: options.name,
            policy: options.policy,
            observe: options.observe,
            // Each call is one of its own unless it says otherwise; some policies ask for a key.
            idempotency_key: options.key ?? randomUUID(),
            workspace: options.workspace === undefined ? undefined : fromHere(options.workspace),
            workspace_access: access,
            rung: options.rung,
            image: options.image,
            extras:
              options.gpu || options.sudo || options.nested
                ? { gpu: options.gpu ?? false, sudo: options.sudo ?? false, nested: options.nested ?? false }
                : undefined,
            repo_filter: repoFilterOf(options),
            provider: options.provider,
            model: options.model,
            budget_micros: options.budget === undefined ? undefined : microsUp(options.budget),
            group: options.group,
            tools: options.tools?.split(',').map((name) => name.trim()),
            system_prompt: options.systemPrompt,
            timeout_ms: options.timeout === undefined ? undefined : options.timeout * 1000,
            toolchains: options.toolchain.length === 0 ? undefined : options.toolchain,
            secrets: options.secret.length === 0 ? undefined : options.secret,
            plan: options.plan,
            on_crash: options.onCrash,
            autonomy: options.autonomy,
            spend: options.spend,
            network: options.network,
            repo: options.repo,
            workspace_settings: options.loadSettings ? ('load' as const) : undefined,
          }),
        },
      })
      if (session.rung === 'none' && !options.json)
        context.terminal.error(context.terminal.style('red', 'rung none: this agent runs on your machine without a cell'))
      if (session.rung !== 'none' && session.network === 'host' && !options.json)
        context.terminal.error(
          context.terminal.style('red', 'network host: this cell has the network of your machine, and what it reads can leave'),
        )
      if (session.secrets_inside.length > 0 && !options.json)
        context.terminal.error(
          context.terminal.style(
            'red',
            `secrets inside: ${session.secrets_inside.join(', ')}: what runs in this cell can read them`,
          ),
        )
      if (options.detach) {
        context.terminal.line(options.json ? JSON.stringify(session) : session.id)
        return
      }
      const first = await daemon.api.sessionEvents({ params: { id: session.id }, query: { limit: 100 } })
      const queued = first.events.find((event) => event.type === 'prompt.queued')
      context.exit(
        await follow(context, {
          daemon,
          session: session.id,
          after: 0,
          until: queued?.type === 'prompt.queued' ? queued.body.id : null,
          interrupts: interrupts ?? undefined,
          json: options.json ?? false,
        }),
      )
    })
}

type Defined<T> = { [K in keyof T]?: Exclude<T[K], undefined> }
const defined = <T extends object>(fields: T): Defined<T> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Defined<T>
