import { counted } from '@anchorhold/core/counted'
import { Failure } from '@anchorhold/protocol/failures'
import { type Assault, ProofLine, type ProofReport, type Verdict } from '@anchorhold/protocol/proof'
import { Rung, rungsOf } from '@anchorhold/protocol/rungs'
import { type Command, Option } from 'commander'
import { spawn } from 'node:child_process'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Context } from '../context.ts'
import type { ExitCode } from '../exit-codes.ts'
import { type Terminal, table } from '../terminal.ts'

/** Works without a daemon, as `doctor` does: it attacks what the machine really does, not what is configured. */
export function prove(program: Command, context: Context): void {
  const walls = Rung.options.filter((rung) => rung !== 'none')
  program
    .command('prove')
    .summary('attack this installation’s own cells, and show what held')
    .addOption(new Option('--rung <rung>', 'only this one; may be given several times').argParser(rungs(walls)))
    .option('--json', 'as JSON')
    .action(async (options: { rung?: readonly Rung[]; json?: true }) => {
      const report = await askProver(
        program.version() ?? '',
        context.where(),
        options.rung ?? rungsOf(process.platform),
        (doing) => context.terminal.step(doing),
      )
      context.terminal.still()
      if (options.json) context.terminal.line(JSON.stringify(report))
      else printCard(context.terminal, report)
      context.exit(exitOfProof(report))
    })
}

const rungs =
  (walls: readonly Rung[]) =>
  (value: string, before: readonly Rung[] = []): readonly Rung[] => {
    const rung = walls.find((each) => each === value)
    if (rung !== undefined) return [...before, rung]
    throw new Failure('bad_request', `Cannot attack the rung "${value}": it is no wall that this version knows`, {
      hint: `Choose from ${walls.join(', ')}`,
    })
  }

async function askProver(
  version: string,
  { state, moved }: { readonly state: string; readonly moved: boolean },
  wanted: readonly Rung[],
  tell: (doing: string) => void,
): Promise<ProofReport> {
  const script = join(dirname(fileURLToPath(import.meta.url)), 'prove.mjs')
  const args = [script, '--version', version, ...(moved ? ['--state', state] : []), ...wanted.flatMap((rung) => ['--rung', rung])]
  const prover = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, ANCHORHOLD_IMAGES: join(state, 'images') },
  })
  const ended = new Promise<number | null>((resolve, reject) => prover.once('error', reject).once('close', resolve))
  let report: ProofReport | null = null
  for await (const text of createInterface({ input: prover.stdout })) {
    const line = ProofLine.parse(JSON.parse(text))
    if ('doing' in line) tell(line.doing)
    else report = line.report
  }
  const code = await ended
  if (report === null || code !== 0)
    throw new Failure('internal', `Cannot tell what the cells of this machine stop: the attacks ended early, with code ${code}`, {
      hint: 'Nothing is proven. Run it again, and "anchorhold doctor" if it happens again',
    })
  return report
}

/** Nothing is proven where nothing was attacked, and an attack that could not be carried out has not been blocked. */
export function exitOfProof({ rungs, assaults }: ProofReport): ExitCode {
  if (assaults.some(({ findings }) => ['open', 'error'].includes(worst(findings)))) return 1
  return rungs.some(({ available }) => available) ? 0 : 7
}

/** What a whole attack comes to. */
function worst(findings: Assault['findings']): Verdict {
  const order = ['error', 'open', 'blocked'] as const
  return order.find((verdict) => findings.some((finding) => finding.verdict === verdict)) ?? 'not applicable'
}

const faces = {
  blocked: { colour: 'green', mark: '■ blocked' },
  open: { colour: 'red', mark: '□ OPEN' },
  error: { colour: 'red', mark: '? not run' },
  'not applicable': { colour: 'dim', mark: '– not applicable' },
} as const satisfies Record<Verdict, { readonly colour: string; readonly mark: string }>

export function printCard(terminal: Terminal, report: ProofReport): void {
  const { style, foreign } = terminal
  const { rungs, attacks, assaults } = report
  const of = (attack: string, rung: Rung) => assaults.find((each) => each.attack === attack && each.rung === rung)
  terminal.line(style('bold', `What the cells of this machine stop, ${new Date(report.at).toISOString().slice(0, 16)}Z`))
  terminal.line(
    style(
      'dim',
      `anchorhold ${report.version} · kernel ${report.kernel.release} ${report.kernel.arch} · cells started by ${report.as === 'root' ? 'root, each as a user of its own' : 'an ordinary user'}`,
    ),
  )
  terminal.line()
  const head = ['', ...rungs.map(({ rung }) => style('bold', rung))]
  const rows = attacks.map(({ name }) => [
    name,
    ...rungs.map(({ rung, available }) => {
      const assault = of(name, rung)
      if (!available || assault === undefined) return style('dim', '· not available')
      const { colour, mark } = faces[worst(assault.findings)]
      return style(colour, mark)
    }),
  ])
  for (const row of table([head, ...rows])) terminal.line(row.trimEnd())

  for (const { rung, available, missing } of rungs) {
    if (available) continue
    terminal.line()
    terminal.line(`${style('bold', rung)} was not attacked, because it is not available:`)
    for (const { what, remedy } of missing)
      terminal.line(`    ${foreign(what)}\n    to fix it: ${style('bold', foreign(remedy))}`)
  }
  for (const { rung, attack, findings } of assaults) {
    for (const { check, verdict, seen } of findings) {
      if (verdict !== 'open' && verdict !== 'error') continue
      terminal.line()
      terminal.line(`${style('red', faces[verdict].mark)}  ${style('bold', rung)}: ${attack}, ${check}`)
      terminal.line(`    ${foreign(seen)}`)
      const broken = attacks.find(({ name }) => name === attack)
      if (broken !== undefined) terminal.line(style('dim', `    promised: ${broken.promise}`))
    }
  }
  terminal.line()
  terminal.line(summary(report))
  const unasked = rungsOf(process.platform).filter((rung) => ![...rungs.map((each) => each.rung), 'none'].includes(rung))
  if (unasked.length > 0) terminal.line(style('dim', `not attacked, because not asked for: ${unasked.join(', ')}`))
  if (report.not_attacked.length > 0)
    terminal.line(style('dim', `not attacked, because it is no wall: ${report.not_attacked.join(', ')}`))
}

function summary({ assaults, rungs }: ProofReport): string {
  const findings = assaults.flatMap((each) => each.findings)
  const count = (verdict: Verdict) => findings.filter((finding) => finding.verdict === verdict).length
  const tried = rungs.filter(({ available }) => available).length
  if (tried === 0) return 'No rung is available: nothing was attacked, and nothing is proven.'
  return `${counted(findings.length, 'check')} on ${tried} of ${counted(rungs.length, 'rung')}: ${count('blocked')} blocked, ${count('open')} open, ${count('error')} not run, ${count('not applicable')} not applicable.`
}
