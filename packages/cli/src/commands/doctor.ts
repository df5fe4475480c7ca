import type { DoctorReport } from '@anchorhold/protocol/doctor'
import { DoctorReport as Report } from '@anchorhold/protocol/doctor'
import type { Command } from 'commander'
import { execFile } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Context } from '../context.ts'
import { type Terminal, table } from '../terminal.ts'

/** Works without a daemon: it is what one turns to when nothing works. */
export function doctor(program: Command, context: Context): void {
  program
    .command('doctor')
    .summary('what isolation this machine can give, each finding from a real run')
    .option('--json', 'as JSON')
    .action(async (options: { json?: true }) => {
      context.terminal.spin('trying each rung')
      const script = join(dirname(fileURLToPath(import.meta.url)), 'doctor.mjs')
      const { stdout } = await promisify(execFile)(process.execPath, ['--disable-warning=ExperimentalWarning', script])
      const report = Report.parse(JSON.parse(stdout))
      if (options.json) context.terminal.line(JSON.stringify(report))
      else print(context.terminal, report)
      context.exit(report.rungs.some(({ rung, available }) => rung !== 'none' && available) ? 0 : 7)
    })
}

function print(terminal: Terminal, report: DoctorReport): void {
  for (const rung of report.rungs) {
    const mark = rung.available ? terminal.style('green', '✓') : terminal.style('red', '✗')
    const note = rung.rung === 'none' ? terminal.style('red', ' (no isolation: only when asked for by name)') : ''
    terminal.line(
      `${mark} ${terminal.style('bold', rung.rung)}${note}${rung.start_ms === null ? '' : terminal.style('dim', ` starts in ${rung.start_ms.toFixed(0)} ms`)}`,
    )
    for (const { what, remedy } of rung.missing) terminal.line(`    ${what}\n    to mend it: ${terminal.style('bold', remedy)}`)
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
  if (report.toolchains.length > 0) {
    terminal.line('Toolchains outside /usr, mounted read-only on demand (run --toolchain NAME):')
    for (const { name, folders } of report.toolchains)
      terminal.line(`    ${name}  ${terminal.style('dim', terminal.foreign(folders.join(', ')))}`)
  }
}
