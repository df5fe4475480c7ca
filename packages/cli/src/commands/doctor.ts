import type { DoctorReport } from '@anchorhold/protocol/doctor'
import { DoctorReport as Report } from '@anchorhold/protocol/doctor'
import { Failure } from '@anchorhold/protocol/failures'
import { type Rung, untestedRungs } from '@anchorhold/protocol/rungs'
import type { Session } from '@anchorhold/protocol/sessions'
import type { Command } from 'commander'
import { execFile } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { allSessions } from '../all-sessions.ts'
import type { Context } from '../context.ts'
import { findDaemon } from '../daemon.ts'
import { showDisk } from './disk.ts'
import { type Terminal, table } from '../terminal.ts'
import { filesInTrouble } from './status.ts'

/** Works without a daemon: it is what one turns to when nothing works. */
export function doctor(program: Command, context: Context): void {
  program
    .command('doctor')
    .summary('what isolation this machine can give, each finding from a real run')
    .description(
      'Tries every rung and says what is missing. Of rungs that take long to try, it tells what was found within the last week.',
    )
    .option('--fresh', 'try every rung again, several times')
    .option('--disk', 'what Anchorhold keeps on the disk, and what nobody owns any more')
    .option('--json', 'as JSON')
    .action(async (options: { fresh?: true; disk?: true; json?: true }) => {
      if (options.disk) return showDisk(context, options.json ?? false)
      context.terminal.spin(options.fresh ? 'trying each rung several times' : 'trying each rung')
      const script = join(dirname(fileURLToPath(import.meta.url)), 'doctor.mjs')
      const { state, moved } = context.where()
      const known = [
        '--memory',
        join(state, 'doctor.json'),
        '--images',
        join(state, 'images'),
        ...(moved ? ['--state', state] : []),
      ]
      const args = ['--disable-warning=ExperimentalWarning', script, ...known, ...(options.fresh ? ['--fresh'] : [])]
      const { stdout } = await promisify(execFile)(process.execPath, args).catch((cause: Error & { stderr?: string }) => {
        for (const line of (cause.stderr ?? '').trim().split('\n')) context.terminal.error(context.terminal.foreign(line))
        throw new Failure('internal', 'Cannot find out what this machine can isolate: the look ended early', {
          cause,
          hint: 'Run it again with --fresh; if it happens again, report the lines above',
        })
      })
      const report = Report.parse(JSON.parse(stdout))
      if (options.json) context.terminal.line(JSON.stringify(report))
      else {
        print(context.terminal, report)
        await showTrouble(context)
      }
      context.exit(report.rungs.some(({ rung, available }) => rung !== 'none' && available) ? 0 : 7)
    })
}

/** Where a daemon runs, it knows which policy files it could not use, and whose network nobody watches. */
async function showTrouble({ terminal, where }: Context): Promise<void> {
  const daemon = await findDaemon(where())
  if (daemon !== null) printHostNetworks(terminal, await allSessions(daemon, { archived: false }))
  const now = await daemon?.api.status()
  for (const words of now === undefined ? [] : filesInTrouble(now))
    terminal.line(`${terminal.style('red', '✗')} ${terminal.foreign(words)}`)
}

export function printHostNetworks(
  terminal: Terminal,
  sessions: readonly Pick<Session, 'id' | 'name' | 'state' | 'network'>[],
): void {
  for (const { id, name } of sessions.filter(({ network, state }) => network === 'host' && state !== 'stopped'))
    terminal.line(
      `${terminal.style('red', `✗ ${id} has the network of the host`)} ${terminal.foreign(name)}\n    what its agent reaches is not looked at; to end it: ${terminal.style('bold', `anchorhold stop ${id}`)}`,
    )
}

function triedWords({ start_ms, tried_at }: DoctorReport['rungs'][number]): string {
  const when = tried_at === null ? '' : `, seen ${new Date(tried_at).toISOString().slice(0, 16).replace('T', ' ')}`
  return start_ms === null ? '' : ` starts in ${start_ms.toFixed(0)} ms${when}`
}

function noteOf(rung: Rung): string | null {
  if (rung === 'none') return 'no isolation: only when asked for by name'
  return untestedRungs.includes(rung) ? 'never tested on real hardware' : null
}

export function print(terminal: Terminal, report: DoctorReport): void {
  for (const rung of report.rungs) {
    const mark = rung.available ? terminal.style('green', '✓') : terminal.style('red', '✗')
    const words = noteOf(rung.rung)
    const note = words === null ? '' : terminal.style('red', ` (${words})`)
    terminal.line(`${mark} ${terminal.style('bold', rung.rung)}${note}${terminal.style('dim', triedWords(rung))}`)
    for (const note of rung.notes ?? []) terminal.line(`    ${terminal.foreign(note)}`)
    for (const { what, touched, why, remedy } of rung.holes ?? []) {
      const meets = { no: 'cells do not meet it', perhaps: 'cells may meet it', yes: 'cells meet it' }[touched]
      const style = touched === 'no' ? 'dim' : 'red'
      terminal.line(`    ${terminal.style(style, 'known hole:')} ${terminal.foreign(what)}`)
      terminal.line(`      ${terminal.style(style, meets)}: ${terminal.foreign(why)}`)
      terminal.line(`      to fix it: ${terminal.style('bold', terminal.foreign(remedy))}`)
    }
    for (const { name, available, missing } of rung.extras ?? []) {
      terminal.line(`    ${name} ${available ? terminal.style('green', 'works') : terminal.style('yellow', 'is not there')}`)
      for (const { what, remedy } of missing)
        terminal.line(`      ${terminal.foreign(what)}\n      to fix it: ${terminal.style('bold', terminal.foreign(remedy))}`)
    }
    for (const { what, remedy } of rung.missing) terminal.line(`    ${what}\n    to fix it: ${terminal.style('bold', remedy)}`)
    const colour = { enforced: 'green', watched: 'yellow', 'not enforced': 'red' } as const
    for (const row of table(
      rung.limits.map(({ name, enforcement, how }) => [
        `    ${name}`,
        terminal.style(colour[enforcement], enforcement),
        terminal.style('dim', how),
      ]),
    ))
      terminal.line(row)
  }
  const { kernel } = report
  terminal.line(
    terminal.style(
      'dim',
      `kernel ${kernel.release} ${kernel.arch} · user namespaces ${kernel.user_namespaces ? 'yes' : 'no'} · seccomp ${kernel.seccomp ? 'yes' : 'no'} · cgroups ${kernel.cgroups}`,
    ),
  )
  if (report.toolchains.length === 0) terminal.line(terminal.style('dim', 'no toolchains outside /usr'))
  else {
    terminal.line('Toolchains outside /usr, mounted read-only on demand (run --toolchain NAME):')
    for (const { name, folders } of report.toolchains)
      terminal.line(`    ${name}  ${terminal.style('dim', terminal.foreign(folders.join(', ')))}`)
  }
}
