import type { Policy, Rule } from '@anchorhold/protocol/policy'
import { toolNamed } from '../agents/tools.ts'
import { compilePolicy, type CompiledPolicy, decide, matchesCommand, matchesWhole, needsNoRule, partsOf } from './decide.ts'
import type { Meaning, ShellCommand } from './meaning.ts'
import { baseName, literalGlob, patternWord, type ShellWord } from './patterns.ts'
import { interpreters } from './commands/effects.ts'
import { runsAnything } from './commands/inner-of.ts'

/** The rule that would settle a request from now on; or what stands in the way of any. */
export type Suggestion = { readonly rule: Rule } | { readonly rule: null; readonly inTheWay: string }

/** Because the strictest match wins, an allowance settles only what is asked for want of a rule. */
export function suggestRule(compiled: CompiledPolicy, meaning: Meaning): Suggestion {
  const decision = decide(compiled, meaning)
  if (decision.effect === 'allow') return { rule: null, inTheWay: 'it is allowed already' }
  if (decision.decider !== 'no rule') return { rule: null, inTheWay: decision.by }
  const whole = matchesWhole(compiled, meaning)
  const open = partsOf(meaning).filter(
    (part) => !needsNoRule(part) && [...whole, ...matchesCommand(compiled, meaning, part)].length === 0,
  )
  const [part = null, ...others] = open
  const rule = candidateFor(meaning, part)
  if (rule !== null && decide(compilePolicy(withRule(compiled.policy, rule)), meaning).effect === 'allow') return { rule }
  return {
    rule: null,
    inTheWay:
      others.length > 0
        ? 'it runs several commands, and no one rule would settle all of them'
        : 'no rule that is narrower than the whole tool would settle it',
  }
}

const withRule = (policy: Policy, rule: Rule): Policy => ({ ...policy, rules: [...policy.rules, rule] })

/** A narrow allowance for the action, or for one of its commands; null where there is none. */
export function candidateFor({ action, commands, paths }: Meaning, part: ShellCommand | null): Rule | null {
  switch (action.kind) {
    case 'tool': {
      const tool = literalGlob(action.tool)
      if (commands !== null) {
        const command = part === null ? null : commandFor(part)
        return command === null ? null : { on: 'tool', match: { tool, command }, effect: 'allow' }
      }
      const path = paths.at(-1)
      if (path !== undefined && path !== '') return { on: 'tool', match: { tool, path: folderOf(path) }, effect: 'allow' }
      const field = toolNamed(action.tool).url
      const url = field === undefined ? undefined : action.input[field]
      const site = typeof url === 'string' ? siteOf(url) : null
      return { on: 'tool', match: { tool, ...(site === null ? {} : { input: { [field!]: `${site}/*` } }) }, effect: 'allow' }
    }
    case 'net':
      return {
        on: 'net',
        match: { host: action.host, port: action.port, ...(action.method === null ? {} : { method: action.method }) },
        effect: 'allow',
      }
    case 'host': {
      const params = Object.entries(action.params).map(([name, value]) => [name, literalGlob(String(value))] as const)
      // An empty or very long value has no glob of its own.
      if (params.some(([, glob]) => glob === '' || glob.length > 500)) return null
      return {
        on: 'host',
        match: { program: literalGlob(action.program), ...(params.length === 0 ? {} : { params: Object.fromEntries(params) }) },
        effect: 'allow',
      }
    }
    case 'spend':
      return null
  }
}

/** A file's folder and all below it; a file at the top by itself. */
function folderOf(path: string): string {
  const at = path.lastIndexOf('/')
  return at <= 0 ? literalGlob(path) : `${literalGlob(path.slice(0, at + 1))}*`
}

const siteOf = (url: string): string | null => /^https?:\/\/[^/?#*\\]+/.exec(url)?.[0] ?? null

/** Programs that read and change nothing by themselves, whatever their arguments. */
const harmless: ReadonlySet<string> = new Set(
  'ls cat head tail wc pwd echo true false stat du df basename dirname realpath readlink diff cmp cut tr nl tac column jq grep egrep fgrep which type uname whoami id sleep seq cd'.split(
    ' ',
  ),
)
/** Programs that only read, but for an option or an operand that writes, sets or runs something: `rg --pre`, `sort -o`, `git grep -O`. */
const armed: ReadonlySet<string> = new Set('rg sort uniq tree date hostname file printf test'.split(' '))
/** The same of subcommands, and those that run what stands behind them. */
const armedBelow: ReadonlyMap<string, RegExp> = new Map(
  Object.entries({
    git: /^(grep|rebase|difftool|archive|filter-branch)$/,
    gh: /^api$/,
    bundle: /^exec$/,
    nix: /^(run|shell|develop)$/,
    docker: /^(exec|run|create)$/,
    podman: /^(exec|run|create)$/,
    kubectl: /^(exec|debug|run)$/,
    poetry: /^run$/,
  }),
)
const isArmed = (name: string, second: string | undefined) =>
  armed.has(name) || (second !== undefined && armedBelow.get(name)?.test(second) === true)
/** Of these the operand after the first subcommand says more: `npm run build`, `docker compose up`. */
const deeper: ReadonlyMap<string, RegExp> = new Map(
  Object.entries({
    npm: /^(run|run-script|exec|x)$/,
    pnpm: /^(run|exec|dlx)$/,
    yarn: /^(run|exec|dlx|workspace)$/,
    bun: /^(run|x)$/,
    deno: /^(run|task)$/,
    uv: /^(run|pip|tool)$/,
    poetry: /^run$/,
    go: /^(run|tool|mod)$/,
    cargo: /^run$/,
    docker: /^(compose|container|image|exec|run|volume|network)$/,
    podman: /^(compose|container|image|exec|run)$/,
    gh: /^\w+$/,
    git: /^(remote|stash|worktree|submodule|config|bisect)$/,
    kubectl: /^(config|rollout|exec)$/,
    systemctl: /^(start|stop|restart|enable|disable|status)$/,
    ...{ aws: /^\w+/, gcloud: /^\w+/, az: /^\w+/ },
  }),
)
const commandCharsMax = 500

/** `git push *` for `git push origin main`: the program and its subcommand, and what follows left open. */
function commandFor({ words, plain }: ShellCommand): string | null {
  const known: string[] = []
  for (const word of words) {
    if (word === null) break
    known.push(word)
  }
  const [program, second] = known
  if (!plain || program === undefined) return null
  const pattern = patternFor(program, second, known, words)
  return pattern === null || pattern.length > commandCharsMax ? null : pattern
}

function patternFor(
  program: string,
  second: string | undefined,
  known: readonly string[],
  words: readonly ShellWord[],
): string | null {
  const name = baseName(program)
  const isWhole = known.length === words.length
  const exactly = isWhole ? known.map(patternWord).join(' ') : null
  if (isArmed(name, second)) return exactly
  // What runs anything is only ever allowed word for word.
  if (runsAnything(name)) return known.length > 1 ? exactly : null
  const start = (count: number) => `${known.slice(0, count).map(patternWord).join(' ')} *`
  if (harmless.has(name)) return start(1)
  const isName = (word: string | undefined) => word !== undefined && /^[A-Za-z][\w:.-]*$/.test(word)
  if (interpreters.test(name) && !deeper.has(name)) return second === undefined || second.startsWith('-') ? exactly : start(2)
  if (isName(second)) {
    if (deeper.get(name)?.test(second!) !== true)
      return hasSubcommands.has(name) || isWhole === false ? start(2) : (exactly ?? start(2))
    return isName(known[2]) || known[2]?.includes('/') === true ? start(3) : (exactly ?? null)
  }
  return exactly
}

/** Programs known to take a subcommand as their first operand; of others the operand may be a file. */
const hasSubcommands: ReadonlySet<string> = new Set(
  'git npm pnpm yarn bun cargo go docker podman kubectl helm terraform tofu gh glab pip pip3 uv poetry apt apt-get brew make just task rake bundle composer dotnet mvn gradle rustup nix systemctl vercel fly aws gcloud az heroku'.split(
    ' ',
  ),
)
