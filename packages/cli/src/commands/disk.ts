import { sizeWords } from '@anchorhold/core/size-words'
import type { Context } from '../context.ts'
import { table } from '../terminal.ts'

/** Explains what takes space, and how to have it back. */
export async function showDisk({ terminal, where }: Context, json: boolean): Promise<void> {
  terminal.spin('looking through the state folder')
  const { diskReport } = (await import(new URL('./disk.mjs', import.meta.url).href)) as typeof import('../disk/disk.ts')
  const report = diskReport(where().state)
  terminal.still()
  if (json) return terminal.line(JSON.stringify(report))
  const total = report.parts.reduce((sum, { bytes }) => sum + bytes, 0)
  terminal.line(`${terminal.style('bold', sizeWords(total))} in ${terminal.foreign(report.state)}`)
  for (const row of table(
    report.parts.map(({ name, bytes, what, free }) => [
      `  ${name}`,
      sizeWords(bytes).padStart(9),
      `${what}${free === null ? '' : terminal.style('dim', ` (to free it: ${free})`)}`,
    ]),
  ))
    terminal.line(row)
  if (report.sessions.length > 0) terminal.line('The largest sessions:')
  for (const { id, name, archived, bytes } of report.sessions)
    terminal.line(
      `  ${id}  ${sizeWords(bytes).padStart(9)}  ${terminal.foreign(name)}${archived ? terminal.style('dim', ' (archived)') : ''}`,
    )
  if (report.unowned.length === 0) return terminal.line('No leftovers.')
  terminal.line('Nothing uses these; the next start of the daemon removes them:')
  for (const { path, bytes } of report.unowned) terminal.line(`  ${sizeWords(bytes).padStart(9)}  ${terminal.foreign(path)}`)
}
