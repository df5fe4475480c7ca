import { counted } from '@anchorhold/core/counted'
import { policyTroubleWords } from '@anchorhold/core/policy/trouble-words'
import { sizeWords } from '@anchorhold/core/size-words'
import type { Status } from '@anchorhold/protocol/api/daemon'
import { sessionStates } from '@anchorhold/protocol/sessions'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { findDaemon } from '../daemon.ts'
import { lasting, table } from '../terminal.ts'

/** What is wrong with the files of the house, each in a line: what is said by `up`, by `status` and by `doctor`. */
export const filesInTrouble = ({
  policy_trouble,
  credentials_trouble,
}: Pick<Status, 'policy_trouble' | 'credentials_trouble'>): readonly string[] => [
  ...policy_trouble.map((one) => `${policyTroubleWords(one)}: anchorhold policy check`),
  ...(credentials_trouble === null ? [] : [`${credentials_trouble} (no session starts but with --network none)`]),
]

export function status(program: Command, context: Context): void {
  program
    .command('status')
    .summary('whether the daemon runs, and what')
    .option('--json', 'as JSON')
    .action(async (options: { json?: true }) => {
      const daemon = await findDaemon(context.where())
      const { terminal } = context
      if (daemon === null) {
        terminal.line(options.json ? JSON.stringify({ running: false }) : 'No daemon is running. Start one: anchorhold up')
        return context.exit(8)
      }
      const now = await daemon.api.status()
      if (options.json) return terminal.line(JSON.stringify({ running: true, ...now }))
      terminal.line(
        `${terminal.style('green', '●')} ${now.url}, pid ${now.pid}, up for ${lasting(now.started_at)}, version ${now.version}`,
      )
      terminal.line(
        `  rung ${now.rung}${now.rung_available ? '' : terminal.style('red', ' (not available)')} · provider ${now.provider}${now.simulated ? ' (rehearsal: no model is called)' : ''} · gate ${now.gate}`,
      )
      if (now.panic !== null) terminal.line(terminal.style('red', `  ${panicWords(now.panic, terminal)}`))
      if (now.provider_trouble !== null) terminal.line(terminal.style('red', `  ${terminal.foreign(now.provider_trouble)}`))
      if (now.provider_refused)
        terminal.line(
          terminal.style(
            'red',
            `  ${now.provider} refuses its credential; store another: anchorhold provider add ${now.provider}`,
          ),
        )
      if (now.disk?.low === true)
        terminal.line(
          terminal.style(
            'red',
            `  The disk is nearly full: ${sizeWords(now.disk.free_bytes)} left; what holds how much: anchorhold doctor --disk`,
          ),
        )
      for (const words of filesInTrouble(now)) terminal.line(terminal.style('red', `  ${terminal.foreign(words)}`))
      const counts = sessionStates.flatMap((state) => (now.sessions[state] > 0 ? [`${now.sessions[state]} ${state}`] : []))
      terminal.line(`  sessions: ${counts.join(', ') || 'none'} · keepers: ${now.keepers} · key: ${now.key_store}`)
    })
  program
    .command('workers')
    .summary('every keeper: what it does, on which rung, and how its model calls fare')
    .option('--json', 'as JSON')
    .action(async (options: { json?: true }) => {
      const { api } = await context.daemon()
      const { workers } = await api.workers()
      const { terminal } = context
      if (options.json) return terminal.line(JSON.stringify(workers))
      if (workers.length === 0) return terminal.line('No keeper is running, and none is on standby.')
      const colour = { idle: 'dim', busy: 'green', unhealthy: 'red' } as const
      for (const row of table(
        workers.map((one) => [
          terminal.style(colour[one.status], one.status),
          one.rung,
          one.session,
          one.sessions === 0 ? terminal.style('dim', 'waits for a session') : terminal.foreign(one.name ?? ''),
          one.sessions === 0
            ? terminal.foreign(one.trouble ?? '')
            : `${counted(one.requests, 'call')}, ${one.errors} failed${one.mean_ms === null ? '' : `, ${one.mean_ms} ms each`}`,
        ]),
      ))
        terminal.line(row)
    })
  program
    .command('panic')
    .summary('stop every agent, close every window, revoke every lease, at once')
    .description(
      'Stops every agent at once, also those that were launched without a session. Nothing runs from then on, also after a restart, until you lift it.',
    )
    .option('--lift', 'let agents run again; starts none')
    .action(async (options: { lift?: true }) => {
      if (options.lift === true) {
        const { api } = await context.daemon()
        const { lifted } = await api.liftPanic()
        return context.terminal.line(
          lifted
            ? 'Agents may run again. Each stopped session waits to be started: anchorhold start SESSION'
            : 'Nothing is held: nobody has panicked.',
        )
      }
      const found = await context.daemonToEnd({ launched: true })
      if (found === null) return context.terminal.line('No daemon is running, and no agent is left.')
      const { api } = found.daemon
      const { sessions, launched, left } = await api.panic()
      if (found.started) await api.shutdown({ body: { all: true } })
      context.terminal.line(
        `${sessions} ${sessions === 1 ? 'session was' : 'sessions were'} stopped${launched === 0 ? '' : `, and ${launched === 1 ? '1 launched sandbox' : `${launched} launched sandboxes`}`}. Nothing runs until you lift it: anchorhold panic --lift`,
      )
      for (const what of left) context.terminal.line(context.terminal.style('red', context.terminal.foreign(what)))
      if (left.length > 0) context.exit(1)
    })
}

function panicWords({ actor, at, everybodys }: NonNullable<Status['panic']>, terminal: Context['terminal']): string {
  const what = everybodys ? 'every agent' : 'all your agents'
  return `${terminal.foreign(actor)} stopped ${what} ${lasting(at)} ago (panic): nothing runs until it is lifted with anchorhold panic --lift`
}
