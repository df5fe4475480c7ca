import { Failure } from '@anchorhold/protocol/failures'
import type { Command } from 'commander'
import { setTimeout as wait } from 'node:timers/promises'
import type { Context } from '../context.ts'
import { type Daemon, findDaemon, startDaemon } from '../daemon.ts'
import { numberFrom } from '../flags/values.ts'
import { tellReach } from './expose.ts'
import { filesInTrouble } from './status.ts'

export function up(program: Command, context: Context): void {
  program
    .command('up')
    .summary('start the daemon')
    .description('Starts the daemon and stays until Ctrl-C. Agents at work go on after that.')
    .option('--port <n>', 'the loopback port (default: 7777)', (text) => String(numberFrom(0, 65_535)(text)))
    .option('--public-url <url>', 'the address under which a proxy of yours serves it (default: public_url in config.yaml)')
    .option('-d, --detach', 'return once it is up')
    .action(async (options: { port?: string; publicUrl?: string; detach?: true }) => {
      const { terminal } = context
      const running = await findDaemon(context.where())
      if (running !== null) {
        refuseOtherPort(running, options.port)
        terminal.line(
          `${terminal.style('green', '●')} Anchorhold is already running${running.pid === null ? '' : ` (pid ${running.pid})`}.`,
        )
        await greet(context, running)
        if (options.publicUrl !== undefined) await tellReach(context, running, options.publicUrl)
        return
      }
      terminal.spin('starting')
      const daemon = await startDaemon({ where: context.where(), port: options.port, publicUrl: options.publicUrl })
      await greet(context, daemon)
      if (options.publicUrl !== undefined) await tellReach(context, daemon, options.publicUrl)
      if (options.detach) return
      terminal.line(terminal.style('dim', 'Ctrl-C ends the daemon. Agents at work go on.'))
      await new Promise<void>((resolve) => {
        for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => resolve())
        // It may also be ended from elsewhere.
        const timer = setInterval(() => {
          if (alive(daemon.pid)) return
          clearInterval(timer)
          resolve()
        }, 500)
      })
      await leave(context, daemon)
      process.exit(0)
    })
  program
    .command('down')
    .summary('end the daemon; agents at work go on, unless --all')
    .option('--all', 'end every agent and the gate, too')
    .action(async (options: { all?: true }) => {
      const all = options.all ?? false
      const daemon = all ? ((await context.daemonToEnd())?.daemon ?? null) : await findDaemon(context.where())
      if (daemon === null) return context.terminal.line('No daemon is running.')
      await end(context, daemon, all)
    })
}

/** Two daemons cannot have one state folder. */
function refuseOtherPort({ url, pid }: Daemon, port: string | undefined): void {
  if (port === undefined || port === '0' || new URL(url).port === String(Number(port))) return
  throw new Failure(
    'conflict',
    `Cannot start the daemon on port ${port}: it is already running at ${url}${pid === null ? '' : ` (pid ${pid})`}`,
    {
      hint: `End it first: anchorhold down; or have another beside it: anchorhold --state FOLDER up --port ${port}`,
    },
  )
}

/** Ends the daemon that was started here, and not one that has taken its place since. */
async function leave(context: Context, started: Daemon): Promise<void> {
  const daemon = await findDaemon(context.where())
  if (daemon === null || daemon.pid !== started.pid) return context.terminal.line('The daemon has ended.')
  await end(context, daemon, false)
}

/** Resolves when its process is gone; says how many agents go on. */
export async function shutDown({ api, pid }: Daemon, all: boolean): Promise<number> {
  const { left_running } = await api.shutdown({ body: { all } })
  while (alive(pid)) await wait(20)
  return left_running
}

async function end({ terminal }: Context, daemon: Daemon, all: boolean): Promise<void> {
  const left_running = await shutDown(daemon, all)
  if (left_running === 0) return terminal.line('The daemon has ended. Nothing is left running.')
  const agents = left_running === 1 ? '1 agent in its cell' : `${left_running} agents in their cells`
  terminal.line(`The daemon has ended. Still running: ${agents}, and the gate that serves them.`)
  terminal.line('  Come back to them:  anchorhold up')
  terminal.line('  End them:           anchorhold down --all')
}

function alive(pid: number | null): boolean {
  if (pid === null) return false
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/** What a person needs to know of a daemon that stands. */
export async function greet({ terminal }: Context, { api }: Daemon): Promise<void> {
  const status = await api.status()
  const { url: link } = await api.createLoginLink()
  const key = (word: string) => terminal.style('dim', word.padEnd(10))
  terminal.line(`${terminal.style('bold', 'Anchorhold')} ${status.version} answers on ${status.url}`)
  terminal.line()
  terminal.line(`  ${key('log in')}${link}`)
  terminal.line(`  ${key('')}${terminal.style('dim', 'once, within 15 minutes; another: anchorhold login-link')}`)
  if (status.rung_available)
    terminal.line(`  ${key('rung')}${terminal.style(status.rung === 'none' ? 'red' : 'green', status.rung)}`)
  else {
    terminal.line(`  ${key('rung')}${terminal.style('red', `${status.rung} is not available: sessions are refused`)}`)
    for (const { what, remedy } of status.rung_missing)
      terminal.line(`  ${key('')}${terminal.foreign(what)}. To fix it: ${terminal.style('bold', terminal.foreign(remedy))}`)
  }
  if (status.simulated) {
    terminal.line(
      `  ${key('provider')}${terminal.style('yellow', 'rehearsal')}: no model is called; it follows simple instructions, so that you can try everything`,
    )
    const found = ['ANTHROPIC_API_KEY', 'OPENROUTER_API_KEY'].find((name) => (process.env[name] ?? '') !== '')
    const kind = found === 'OPENROUTER_API_KEY' ? 'openrouter' : 'anthropic'
    terminal.line(`  ${key('')}add yours: anchorhold provider add ${kind}${found === undefined ? '' : ` --env ${found}`}`)
  } else terminal.line(`  ${key('provider')}${status.provider}`)
  if (status.provider_trouble !== null)
    terminal.line(`  ${key('')}${terminal.style('red', terminal.foreign(status.provider_trouble))}`)
  for (const words of filesInTrouble(status)) terminal.line(`  ${key('')}${terminal.style('red', terminal.foreign(words))}`)
  terminal.line(`  ${key('state')}${status.state_folder}`)
  if (status.keepers > 0) terminal.line(`  ${key('agents')}${status.keepers} in their cells`)
  terminal.line()
  // A clone that was started by npm is on no PATH.
  const byNpm = process.env.npm_command !== undefined
  if (byNpm)
    terminal.line(
      terminal.style('dim', 'Where it says anchorhold …, write npx anchorhold … in this folder; npm link puts it on your PATH.'),
    )
  const tried = `${byNpm ? 'npx ' : ''}anchorhold run "create hello.txt saying hi, then run cat hello.txt"`
  terminal.line(`Try: ${terminal.style('bold', tried)}`)
}
