import { Failure } from '@anchorhold/protocol/failures'
import type { Nanos } from '@anchorhold/protocol/money'
import { Rung } from '@anchorhold/protocol/rungs'
import { Option, type Command } from 'commander'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Context } from '../context.ts'
import { type AccessFlags, accessOf, withAccess } from '../flags/access.ts'
import { collect, path, usd } from '../flags/values.ts'
import { repoFilterOf, type RepoFilterFlags, withRepoFilter } from '../flags/repo-filter.ts'
import { fromHere } from '../here.ts'
import { bridgeOf } from '../launcher/bridge.ts'
import type { LaunchOptions } from '../launcher/launch.ts'
import { parseSandboxConf, type SandboxConf } from '../launcher/sandbox-conf.ts'

type Shared = RepoFilterFlags &
  AccessFlags & {
    rung?: Rung
    mount: string[]
    toolchain: string[]
    image?: string
    verbose?: true
  }
type SandboxFlags = Shared & { workspace?: string; bridgeUrl?: string; config?: string; net?: 'deny' | 'proxy' | 'host' }
type ClaudeFlags = Shared & { provider?: string; budget?: Nanos; net?: 'deny' | 'proxy' }

export function sandbox(program: Command, context: Context): void {
  shared(
    program
      .command('sandbox')
      .summary('run a command in a cell, on this terminal; needs no daemon')
      .description('Runs a command in a cell of its own. It sees the folder and the programs of this machine, and nothing else.')
      .argument('<command...>', 'what to run, after --')
      .option('-w, --workspace <dir>', 'the folder that it works in (default: the current one)', path)
      .option('--bridge-url <url>', 'a bridge on this machine that it may reach, as http://localhost:3000')
      .option('--config <file>', 'a sandbox.conf (default: the one in the configuration folder)', path)
      .addOption(
        new Option(
          '--net <what>',
          'deny: no network; proxy: what your rules open; host: the network of this machine, unguarded',
        ).choices(['deny', 'proxy', 'host']),
      ),
  ).action(async (argv: [string, ...string[]], flags: SandboxFlags) => {
    const conf = readConf(context, flags.config)
    const verbose = flags.verbose ?? conf.verbose ?? false
    const url = flags.bridgeUrl ?? (conf.allowNetwork === false ? undefined : conf.bridgeUrl)
    await launchWith(context, {
      ...common(context, flags, conf, verbose),
      workspace: fromHere(flags.workspace ?? '.'),
      network: networkOf(flags, conf),
      bridge: url === undefined ? null : { ...bridgeOf(url), url },
      command: { argv },
    })
  })
  shared(
    program
      .command('claude')
      .summary('an interactive Claude Code in a cell, on this terminal; needs no daemon')
      .description(
        'Starts Claude Code in a cell of its own, with the folder as its workspace. Its conversation is kept for the next time. ' +
          'What comes after -- is for Claude Code itself.',
      )
      .argument('[dir]', 'the folder that it works in', '.')
      .argument('[args...]', "Claude Code's own arguments, after --")
      .option('-p, --provider <name>', 'where model calls go (default: the one in use, or a key in the environment)')
      .option('-b, --budget <usd>', 'what it may spend, as 0.50', usd)
      .addOption(
        new Option('--net <what>', 'deny: nothing but its model, as otherwise; proxy: what your rules open').choices([
          'deny',
          'proxy',
        ]),
      ),
  ).action(async (_dir: string, _args: string[], flags: ClaudeFlags, { args }: Command) => {
    // What comes after -- is no folder, whatever it says.
    const dashes = process.argv.indexOf('--')
    const own = args.slice(0, args.length - (dashes === -1 ? 0 : process.argv.length - dashes - 1))
    const [workspace = '.'] = own
    if (workspace === '')
      throw new Failure('bad_request', 'The folder that it is to work in is empty', { hint: 'Leave it out for the current one' })
    const agentArgs = args.slice(Math.min(1, own.length))
    await launchWith(context, {
      ...common(context, flags, { mounts: [] }, flags.verbose ?? false),
      workspace: fromHere(workspace),
      network: networkOf(flags, {}),
      bridge: null,
      command: { agentArgs, provider: flags.provider ?? null, budgetNanos: flags.budget ?? null },
    })
  })
}

function shared(command: Command): Command {
  return withAccess(withRepoFilter(command), { copy: ', which is gone afterwards', acl: 'afterwards' })
    .addOption(new Option('-r, --rung <rung>', 'how strong the cell must be').choices(Rung.options))
    .option('--image <name>', 'the image of a container or a machine (anchorhold image ls)')
    .option('--mount <source:target:ro>', 'show a file or folder read-only; may be given several times', collect, [])
    .option('--toolchain <name>', 'mount a toolchain of yours read-only (anchorhold doctor names them)', collect, [])
    .option('-v, --verbose', 'say what is in force')
}

function common(context: Context, flags: Shared, conf: SandboxConf, verbose: boolean) {
  return {
    stateFlag: context.where().moved ? context.where().state : undefined,
    access: accessOf(flags),
    rung: flags.rung ?? null,
    image: flags.image ?? null,
    repoFilter: repoFilterOf(flags) ?? null,
    mounts: [...conf.mounts, ...flags.mount].map(mountOf),
    toolchains: flags.toolchain,
    say: (line: string) =>
      verbose ? context.terminal.error(context.terminal.style('dim', context.terminal.foreign(line))) : undefined,
    warn: (line: string) => context.terminal.error(context.terminal.style('yellow', context.terminal.foreign(line))),
    alarm: (line: string) => context.terminal.error(context.terminal.style('red', context.terminal.foreign(line))),
  }
}

function mountOf(text: string): { readonly source: string; readonly target: string } {
  const [source = '', target = source, mode = 'ro', ...more] = text.split(':')
  if (source === '' || more.length > 0)
    throw new Failure('bad_request', `"${text}" is no mount`, { hint: 'Write it as source:target:ro' })
  if (mode !== 'ro')
    throw new Failure('bad_request', `"${text}" is to be written to, and only the workspace can be`, {
      hint: 'Write it as source:target:ro',
    })
  const path = fromHere(source)
  if (!existsSync(path)) throw new Failure('bad_request', `Cannot mount "${source}": there is no such file or folder`)
  return { source: path, target: target === source ? path : target }
}

function networkOf(
  { net }: Pick<SandboxFlags, 'net'>,
  { allowNetwork, localhostOnly }: Pick<SandboxConf, 'allowNetwork' | 'localhostOnly'>,
): LaunchOptions['network'] {
  if (net !== undefined) return net === 'deny' ? 'none' : net
  if (allowNetwork === undefined && localhostOnly === undefined) return null
  return allowNetwork === true && localhostOnly === false ? 'host' : 'none'
}

function readConf(context: Context, named: string | undefined): SandboxConf {
  const path = named ?? join(dirname(context.config()), 'sandbox.conf')
  if (!existsSync(path)) {
    if (named !== undefined) throw new Failure('bad_request', `There is no file "${named}"`)
    return { mounts: [] }
  }
  return parseSandboxConf(readFileSync(path, 'utf8'), path, process.env)
}

async function launchWith(context: Context, options: LaunchOptions): Promise<void> {
  const { launch } = (await import(new URL('./launcher.mjs', import.meta.url).href)) as typeof import('../launcher/launch.ts')
  context.exit(await launch(options))
}
