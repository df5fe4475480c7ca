import { subcommandOf } from './git.ts'
import { isLong } from './options.ts'
import type { ShellWord } from '../patterns.ts'

/** Options of programs that otherwise run nothing, and by which they run another program. A rule that allows the program does not speak of
 *  that one. Short options may be joined to others and to their value. */
type Arms = { readonly long?: readonly string[]; readonly short?: RegExp; readonly words?: RegExp }

const arms: ReadonlyMap<string, Arms> = new Map(
  Object.entries({
    sort: { long: ['--compress-program'] },
    rg: { long: ['--pre', '--hostname-bin'] },
    man: { long: ['--pager', '--html', '--preprocessor'], short: /^-[a-zA-Z]*[PHp]/ },
    socat: { words: /\b(EXEC|SYSTEM|SHELL):/i },
    split: { long: ['--filter'] },
    install: { long: ['--strip-program'] },
    wget: { long: ['--use-askpass', '--execute', '--config'], short: /^-[a-zA-Z]*e/ },
    tar: {
      long: [
        '--to-command',
        '--use-compress-program',
        '--checkpoint-action',
        '--rmt-command',
        '--rsh-command',
        '--info-script',
        '--new-volume-script',
      ],
      short: /^-[a-zA-Z]*[IF]/,
    },
    cpio: { long: ['--rsh-command'] },
    rsync: { long: ['--rsh', '--rsync-path', '--config'], short: /^-[a-zA-Z]*[eM]/ },
    scp: { short: /^-[a-zA-Z0-9]*[SoFDJ]/ },
    sftp: { short: /^-[a-zA-Z0-9]*[SoFDJsb]/ },
    zip: { long: ['--unzip-command'], short: /^-[a-zA-Z]*T/ },
    tcpdump: { short: /^-[a-zA-Z]*z/ },
    ip: { words: /^(netns|vrf|-b|-batch|-force)$/ },
  } satisfies Record<string, Arms>),
)

/** Whether a program is told, or may be told by a word that is not known, to run another one or to write where one would not think of it. */
export function isArmed(program: string, args: readonly ShellWord[]): boolean {
  if (program === 'git') return isArmedGit(args)
  if (program === 'sed') return !isSafeSed(args)
  if (/^[gmn]?awk$/.test(program)) return !isSafeAwk(args)
  if (program === 'find' || program === 'fd' || program === 'fdfind') return args.includes(null)
  // Its first word may lack the dash.
  if (program === 'tar' && /^[a-zA-Z]*[IF]/.test(args[0] ?? '')) return true
  const found = arms.get(program)
  return found !== undefined && tells(found, args)
}

function tells({ long = [], short, words }: Arms, args: readonly ShellWord[]): boolean {
  const end = args.indexOf('--')
  const options = end === -1 ? args : args.slice(0, end)
  return (
    options.some((word) => word === null || isLong(word, long) || short?.test(word) === true) ||
    (words !== undefined && args.some((word) => word === null || words.test(word)))
  )
}

/** Options of git's commands by which they run a program, or send to one: `git fetch --upload-pack=PROGRAM`. */
const gitArms: ReadonlyMap<string, Arms> = new Map(
  Object.entries({
    grep: { long: ['--open-files-in-pager'], short: /^-[a-zA-Z]*O/ },
    rebase: { long: ['--exec'], short: /^-[a-zA-Z]*x/ },
    difftool: { long: ['--extcmd'], short: /^-[a-zA-Z]*x/ },
    bisect: { words: /^(run|visualize|view)$/ },
    submodule: { words: /^foreach$/ },
    // Some of the settings name programs.
    config: { words: /^(?!--?(get|list|l\b|show)|get$|list$)/ },
    'filter-branch': { words: /./ },
    'send-email': { words: /./ },
    instaweb: { words: /./ },
    archive: { long: ['--exec', '--remote'] },
    init: { long: ['--template'] },
    ...Object.fromEntries(
      ['fetch', 'pull', 'clone', 'ls-remote', 'fetch-pack', 'push', 'send-pack'].map((name) => [
        name,
        {
          long: ['--upload-pack', '--receive-pack', '--exec', '--config', '--template'],
          ...(name === 'clone' ? { short: /^-[a-zA-Z]*[uc]/ } : {}),
        },
      ]),
    ),
  } satisfies Record<string, Arms>),
)

function isArmedGit(args: readonly ShellWord[]): boolean {
  // Any of git's commands that shows changes can write them into a file.
  if (args.some((word) => word?.startsWith('--ou') === true)) return true
  const { command, rest } = subcommandOf(args)
  if (command === undefined) return false
  if (command === null) return true
  const found = gitArms.get(command)
  if (found === undefined) return false
  return tells(found, rest)
}

/** One step of a script for `sed` that only picks and replaces: GNU's `e` runs a command, and `w` writes a file. */
const sedAddress = String.raw`(?:(?:\d+|\$|\/(?:[^/\\\n]|\\[^\n])*\/)(?:,\s*(?:\+?\d+|\$|\/(?:[^/\\\n]|\\[^\n])*\/))?\s*!?\s*)?`
const sedStep = new RegExp(
  String.raw`^\s*${sedAddress}(?:[pdqPDnNGgHhx=]\d*|s([/|#@!])(?:(?!\1)[^\\\n]|\\[^\n])*\1(?:(?!\1)[^\\\n]|\\[^\n])*\1[gpiI\d]*|y\/[^/\\]*\/[^/\\]*\/)?\s*(?:[;\n]|$)`,
)
function isSafeSed(args: readonly ShellWord[]): boolean {
  let script = false
  for (let at = 0; at < args.length; at++) {
    const word = args[at]
    // A word that is not known may turn out to be an option with another script.
    if (word === null || word === undefined) return false
    if (/^-[nErsuz]*e$/.test(word)) {
      if (!isSafeSteps(args[++at])) return false
      script = true
    } else if (
      /^-([nErsuz]+|i)$/.test(word) ||
      /^--(quiet|silent|regexp-extended|posix|null-data|separate|unbuffered)$/.test(word)
    )
      continue
    else if (word.startsWith('-') && word !== '-') return false
    else if (!script) {
      if (!isSafeSteps(word)) return false
      script = true
    }
  }
  return true
}
function isSafeSteps(text: ShellWord | undefined): boolean {
  // Programs differ in whether what ends a pattern may stand in its brackets.
  if (text === null || text === undefined || text.length > 500 || /\[[^\]]*[/|#@!]/.test(text)) return false
  let rest = text
  while (rest !== '') {
    const [step] = sedStep.exec(rest) ?? []
    if (step === undefined || step === '') return false
    rest = rest.slice(step.length)
  }
  return true
}

/** A program for `awk` that runs no command and writes no file; one in a file is the file's matter, as with every interpreter. */
function isSafeAwk(args: readonly ShellWord[]): boolean {
  for (let at = 0; at < args.length; at++) {
    const word = args[at]
    if (word === null || word === undefined) return false
    if (/^-[Fv]$/.test(word)) at++
    else if (/^-[Fv]./.test(word)) continue
    else if (word.startsWith('-')) return false
    else {
      // `@` is a call by a name that is computed.
      if (/system|getline|\||@|extension/.test(word.replaceAll('||', '')) || /print[^;}]*>/s.test(word)) return false
    }
  }
  return true
}
