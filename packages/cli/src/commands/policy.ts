import { counted } from '@anchorhold/core/counted'
import { errnoWords } from '@anchorhold/core/errno-words'
import { sizeWords } from '@anchorhold/core/size-words'
import { Failure } from '@anchorhold/protocol/failures'
import { Autonomy, type PolicyProblem } from '@anchorhold/protocol/policy'
import type { ActionText } from '@anchorhold/protocol/actions'
import type { Explained, PolicyBacktest } from '@anchorhold/protocol/api/policy'
import { type Command, Option } from 'commander'
import { readFileSync, statSync } from 'node:fs'
import { text as readAll } from 'node:stream/consumers'
import type { Context } from '../context.ts'
import { path } from '../flags/values.ts'
import { ago, table } from '../terminal.ts'

const fileBytesMax = 256 * 1024

type ExplainFlags = {
  tool?: string
  command?: string
  path?: string
  input?: string
  net?: string[]
  host?: string[]
  spend?: string[]
  session?: string
  policy?: string
  autonomy?: Autonomy
  json?: true
}

export function policy(program: Command, context: Context): void {
  const { terminal } = context
  const group = program
    .command('policy')
    .summary('what agents may do: show, check, explain, test, propose, backtest')
    .description(
      'Policies are files of the config folder: policy.yaml for the whole house, policies/NAME.yaml for those who name one.\nOf the rules that match an action the strictest counts: deny, then ask, then allow.',
    )
  group
    .command('show')
    .summary('what is in force, and where each rule stands')
    .argument('[session]', 'for this one (default: your next one)')
    .option('--json', 'as JSON')
    .action(async (name: string | undefined, options: { json?: true }) => {
      const daemon = await context.daemonOrStart()
      const query = name === undefined ? {} : { session: (await context.session(daemon, name)).id }
      const shown = await daemon.api.showPolicy({ query })
      if (options.json) return terminal.line(JSON.stringify(shown))
      if (shown.files.every(({ exists }) => !exists))
        terminal.line(`no policy file: the defaults are in force (${terminal.foreign(shown.folder)}/policy.yaml)`)
      for (const { file, in_force, problems, exists } of shown.files) {
        if (!exists) continue
        terminal.line(
          `${file}  ${in_force === 'current' ? terminal.style('green', 'in force') : terminal.style('red', inForceWords[in_force])}`,
        )
        showProblems(context, problems)
      }
      const { autonomy, observe } = shown.policy
      terminal.line(`autonomy ${autonomy}${observe ? ', observing' : ''}: ${autonomyWords[autonomy]}`)
      if (shown.rules.length === 0)
        terminal.line(
          'no rules: hosts of the network and programs of this machine are asked for; money is spent up to the budget',
        )
      for (const row of table(shown.settings.map(({ key, value }) => [key, terminal.foreign(value)]))) terminal.line(row)
      const rows = shown.rules.map(({ words, at }) => [`${at.file}:${at.line}`, terminal.foreign(words)])
      for (const row of table(rows)) terminal.line(row)
    })
  group
    .command('check')
    .summary('what is wrong with a policy file, with line and column')
    .argument('[file]', 'a file that is not in force, - for standard input (default: those of the config folder)', path)
    .option('--json', 'as JSON')
    .action(async (file: string | undefined, options: { json?: true }) => {
      const checked = file === undefined ? await checkHouse(context) : await checkText(file)
      if (options.json) terminal.line(JSON.stringify(checked))
      else {
        showProblems(context, checked.problems)
        terminal.line(
          checked.ok
            ? `${terminal.style('green', 'Usable')}: ${counted(checked.rules, 'rule')}.`
            : terminal.style('red', 'Not usable.'),
        )
        if (!checked.ok && file === undefined) terminal.line('The last valid version stays in force.')
      }
      if (!checked.ok) context.exit(1)
    })
  group
    .command('reload')
    .summary('look at the policy files again, now; they are watched besides')
    .action(async () => {
      const { api } = await context.daemon()
      const { ok, rules, problems } = await api.reloadPolicy()
      showProblems(context, problems)
      terminal.line(ok ? `In force: ${counted(rules, 'rule')}.` : 'The last valid version stays in force.')
      if (!ok) context.exit(1)
    })
  group
    .command('explain')
    .summary('how an action would be decided, by which rule, and what would change it')
    .argument('[command]', 'a shell command, in quotes')
    .option('--tool <name>', "one of the agent's tools; Bash with a command")
    .option('--command <text>', 'the command of a shell')
    .option('--path <file>', 'the file that the tool is about', path)
    .option('--input <json>', 'all that the tool is called with')
    .option('--net <words...>', 'a call over the network: GET https://host/path')
    .option('--host <words...>', 'a program of the host and its parameters: deploy env=staging')
    .option('--spend <words...>', 'a model call: MODEL, and what it may cost in dollars')
    .option('-s, --session <session>', 'for this session (default: your next one)')
    .option('--policy <name>', 'as if the session named this policy')
    .addOption(new Option('--autonomy <level>', 'as if the session had this autonomy').choices(Autonomy.options))
    .option('--json', 'as JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  anchorhold policy explain "git push origin main"\n  anchorhold policy explain --tool Edit --path src/a.ts --session last\n  anchorhold policy explain --net GET https://api.github.com/user\n  anchorhold policy explain --host deploy env=staging\n  anchorhold policy explain --spend claude-opus-5 2.50',
    )
    .action(async (command: string | undefined, options: ExplainFlags) => {
      const action = actionFrom(command, options)
      const daemon = await context.daemonOrStart()
      const session = options.session === undefined ? undefined : (await context.session(daemon, options.session)).id
      const body = {
        action,
        ...(session === undefined ? {} : { session }),
        ...(options.policy === undefined ? {} : { policy: options.policy }),
        ...(options.autonomy === undefined ? {} : { autonomy: options.autonomy }),
      }
      const explained = await daemon.api.explainAction({ body })
      if (options.json) return terminal.line(JSON.stringify(explained))
      showExplained(context, explained)
    })
  group
    .command('test')
    .summary('whether actions are decided as a file of fixtures expects')
    .argument('<file>', 'YAML: a list of { action: { tool: Bash, command: git push }, expect: deny }; - for standard input', path)
    .option('--policy-file <file>', 'against this policy file instead of what is in force', path)
    .option('--json', 'as JSON')
    .action(async (file: string, options: { policyFile?: string; json?: true }) => {
      const fixtures = await read(file)
      const text = options.policyFile === undefined ? undefined : await read(options.policyFile)
      const { api } = await context.daemonOrStart()
      const { outcomes, failed } = await api.testPolicy({ body: { fixtures, ...(text === undefined ? {} : { text }) } })
      if (options.json) terminal.line(JSON.stringify({ outcomes, failed }))
      else {
        for (const { passed, line, action, expected, effect, by } of outcomes) {
          if (passed) continue
          terminal.line(`${terminal.style('red', 'not as expected')} line ${line}: ${terminal.foreign(action)}`)
          terminal.line(`    expected ${expected}, got ${effect}: ${terminal.foreign(by)}`)
        }
        terminal.line(`${outcomes.length - failed} of ${outcomes.length} as expected`)
      }
      if (failed > 0) context.exit(1)
    })
  group
    .command('propose')
    .summary('print the smallest policy that would have allowed what sessions did')
    .argument('<session...>', 'their ids, the beginnings of their ids, or last for the one in which something happened last')
    .action(async (names: string[]) => {
      const daemon = await context.daemon()
      const sessions: string[] = []
      for (const name of names) sessions.push((await context.session(daemon, name)).id)
      const { text, actions, skipped, complete } = await daemon.api.proposePolicy({ body: { sessions } })
      terminal.line(
        `# Made of ${counted(actions, 'action')} of ${sessions.length === 1 ? 'session' : 'sessions'} ${sessions.join(', ')}`,
      )
      if (!complete) terminal.line('# They did more than is looked at for a proposal: what came after that is not in it')
      if (skipped > 0) terminal.line(`# Too long to be kept whole, and not in it: ${counted(skipped, 'call')}`)
      for (const line of text.trimEnd().split('\n')) terminal.line(terminal.foreign(line))
    })
  group
    .command('backtest')
    .summary('which past sessions and actions a policy would have stopped')
    .argument('<file>', 'a policy file; - for standard input', path)
    .option('--days <count>', 'how far back (default: 30)')
    .option('--json', 'as JSON')
    .action(async (file: string, options: { days?: string; json?: true }) => {
      const text = await read(file)
      const { api } = await context.daemon()
      const result = await api.backtestPolicy({
        body: { text, ...(options.days === undefined ? {} : { days: daysOf(options.days) }) },
      })
      if (options.json) return terminal.line(JSON.stringify(result))
      showBacktest(context, result)
    })
}

const autonomyWords = {
  full: 'in its cell an agent uses its tools without asking',
  supervised: 'an agent asks before it uses a tool that no rule covers',
  restricted: 'an agent asks before it uses any tool',
  read_only: 'an agent uses no tools',
} as const satisfies Record<Autonomy, string>
const inForceWords = {
  current: 'in force',
  'last good': 'not usable; the last good one is in force',
  locked: 'not usable; nothing is allowed',
} as const

async function checkHouse(context: Context) {
  const { api } = await context.daemonOrStart()
  return api.checkPolicy({ body: {} })
}

/** A text is the same with a daemon and without one. */
async function checkText(file: string) {
  const { checkPolicy } = (await import(
    new URL('./policy.mjs', import.meta.url).href
  )) as typeof import('../launcher/check-policy.ts')
  return checkPolicy(file === '-' ? 'policy.yaml' : file.slice(-200), await read(file))
}

async function read(file: string): Promise<string> {
  if (file === '-') return readAll(process.stdin)
  try {
    const found = statSync(file)
    if (!found.isFile()) throw new Failure('bad_request', `Cannot read "${file}": it is not a file`)
    if (found.size > fileBytesMax)
      throw new Failure('bad_request', `Cannot read "${file}": it is larger than ${sizeWords(fileBytesMax)}`)
    return readFileSync(file, 'utf8')
  } catch (error) {
    if (error instanceof Failure) throw error
    throw new Failure('bad_request', `Cannot read "${file}": ${errnoWords(error)}`, {
      cause: error,
    })
  }
}

function daysOf(text: string): number {
  if (!/^\d{1,3}$/.test(text) || Number(text) < 1 || Number(text) > 365)
    throw new Failure('bad_request', `"${text}" is not a number of days from 1 to 365`)
  return Number(text)
}

/** One action out of the flags. */
export function actionFrom(command: string | undefined, flags: ExplainFlags): ActionText {
  const { net, host, spend } = flags
  for (const word of [command, flags.tool, flags.command, net?.[0], host?.[0], spend?.[0]])
    if (word?.trim() === '') throw new Failure('bad_request', 'The action is empty', { hint: 'Say what it is, as "git push"' })
  const isTool = command !== undefined || flags.tool !== undefined || flags.command !== undefined
  if ([isTool, net !== undefined, host !== undefined, spend !== undefined].filter(Boolean).length !== 1)
    throw new Failure('bad_request', 'Say of one action what it is', {
      hint: 'A command in quotes, or one of --tool, --net, --host, --spend',
    })
  if (net !== undefined) return { net: net.join(' ') }
  if (host !== undefined) {
    const [program = '', ...rest] = host
    return { host: program, params: Object.fromEntries(rest.map(paramOf)) }
  }
  if (spend !== undefined) {
    const [model = '', usd] = spend
    return { spend: model, ...(usd === undefined ? {} : { usd }) }
  }
  const shell = command ?? flags.command
  return {
    tool: flags.tool ?? 'Bash',
    ...(shell === undefined ? {} : { command: shell }),
    ...(flags.path === undefined ? {} : { path: flags.path }),
    ...(flags.input === undefined ? {} : { input: inputOf(flags.input) }),
  }
}

function paramOf(text: string): readonly [string, string] {
  const at = text.indexOf('=')
  if (at < 1) throw new Failure('bad_request', `"${text}" is not a parameter`, { hint: 'Write it as name=value' })
  return [text.slice(0, at), text.slice(at + 1)]
}

function inputOf(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value }
  } catch {}
  throw new Failure('bad_request', `"${text}" is not a JSON object`, { hint: `Write it as '{"name": "value"}'` })
}

function showProblems({ terminal }: Context, problems: readonly PolicyProblem[]): void {
  for (const { file, line, column, level, message } of problems)
    terminal.line(
      `${terminal.foreign(file)}:${line}:${column}: ${terminal.style(level === 'error' ? 'red' : 'yellow', level)}: ${terminal.foreign(message)}`,
    )
}

const colours = { allow: 'green', ask: 'yellow', deny: 'red' } as const

function showExplained({ terminal }: Context, explained: Explained): void {
  const { effect, by, at, command, parts, limits, unseen, grants, change, autonomy } = explained
  terminal.line(
    `${terminal.style(colours[effect], effect)}  ${terminal.foreign(by)}${at === null ? '' : `  (${at.file}:${at.line})`}`,
  )
  if (command !== null) terminal.line(`  because of: ${terminal.foreign(command)}`)
  for (const part of parts) {
    if (part.command !== null && parts.length > 1) terminal.line(`  ${terminal.foreign(part.command)}`)
    for (const match of part.matches)
      terminal.line(
        `    ${match.decides ? '→' : ' '} ${terminal.foreign(match.words)}  (${match.at.file}:${match.at.line})${match.maybe ? '  only its run would tell' : ''}`,
      )
    if (part.matches.length === 0 && parts.length > 1) terminal.line(`      no rule covers it; autonomy ${autonomy}`)
  }
  for (const limit of limits)
    terminal.line(`  ${terminal.style(colours[limit.effect], limit.effect)} beside the rules: ${terminal.foreign(limit.by)}`)
  if (unseen.length > 0) terminal.line(`  not looked at: ${terminal.foreign(unseen.join('; '))}`)
  for (const grant of grants) terminal.line(`  grant: ${terminal.foreign(grant)}`)
  terminal.line('  what would change it:')
  for (const one of change) terminal.line(`    ${terminal.foreign(one)}`)
}

function showBacktest({ terminal }: Context, { since, actions, denied, asked, skipped, sessions }: PolicyBacktest): void {
  for (const { session, name, stopped, denied: no, asked: wait, examples } of sessions) {
    terminal.line(`${session}  ${terminal.foreign(name)}`)
    if (stopped !== null) terminal.line(`    ${terminal.style('red', 'would not have started')}: ${terminal.foreign(stopped)}`)
    for (const { seq, at, action, effect, by } of examples)
      terminal.line(
        `    ${terminal.style(colours[effect], effect)} ${seq}  ${ago(at)}  ${terminal.foreign(action)}  ${terminal.style('dim', terminal.foreign(by))}`,
      )
    if (examples.length < no + wait) terminal.line(`    and ${no + wait - examples.length} more`)
  }
  terminal.line(
    `Of ${counted(actions, 'action')} since ${new Date(since).toISOString().slice(0, 10)}: ${denied} would have been denied, ${asked} asked for${skipped === 0 ? '' : `; ${skipped} not kept whole`}.`,
  )
}
