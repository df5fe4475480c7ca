// With known-shapes.ts the one file that knows a shell's grammar. The gate must not import them: it decides upon meanings.
import type { ToolAction } from '@anchorhold/protocol/actions'
import {
  forEachChild,
  parse,
  type Assignment,
  type Command,
  type RedirectDescriptor,
  type Redirection,
  type SyntaxNode,
  type Word,
} from 'unbash'
import type { Tool } from '../agents/tool.ts'
import { toolNamed } from '../agents/tools.ts'
import { anything, type Meaning, resolvePath, type ShellCommand } from './meaning.ts'
import { guesses, type Inner, mayRun, nothing, type Stdin, variableInner } from './commands/inner.ts'
import type { ShellWord } from './patterns.ts'
import { changesFolder, evaluates, isIdle, tellsAll } from './commands/effects.ts'
import { innerOf } from './commands/inner-of.ts'
import { isHarmlessVariable, isOwnVariable } from './commands/variables.ts'
import { isKnownWhole } from './known-shapes.ts'

/** How deep a command may hide in others, and how many there may be, before all of it counts as unknown. */
const depthMax = 8
const commandsMax = 500
/** How long a command may be, and how many things in it may open another: the parser takes steps by the square of both, and whoever
 *  waits for it waits with everybody else. */
const textCharsMax = 16_384
const openingsMax = 1000

/** Where an agent is: folders by their paths inside the cell. `folder` is where its shell stands, else in the workspace. */
export type Whereabouts = { readonly workspace?: string; readonly home?: string; readonly folder?: string }
type Folders = Required<Whereabouts>

/** What a tool call means: which commands it would run, which file it is about. */
export function toolMeaning(
  action: ToolAction,
  { workspace = '/workspace', home = '/home/agent', folder = workspace }: Whereabouts = {},
): Meaning {
  const tool = toolNamed(action.tool)
  const field = tool.command
  const text = field === undefined ? undefined : action.input[field]
  return {
    action,
    commands:
      field === undefined
        ? null
        : typeof text === 'string'
          ? commandsOf(text, folder !== workspace)
          : text === undefined
            ? []
            : [anything],
    ...placesOf(tool, action.input, { workspace, home, folder }),
  }
}

/** The place that a tool is about, and what it looks through, by each name. */
function placesOf(about: Tool, input: ToolAction['input'], folders: Folders): Pick<Meaning, 'paths' | 'searches'> {
  if (about.path === undefined) return { paths: [], searches: [] }
  const value = input[about.path]
  if (value === undefined && about.searches !== true) return { paths: [], searches: [] }
  const folder = value === undefined ? folders.folder : typeof value === 'string' ? fromRoot(value, folders) : null
  const path = folder === null || about.pattern === undefined ? folder : globbed(input[about.pattern], folder, folders)
  // What cannot be read may lead anywhere.
  if (path === null) return { paths: ['/'], searches: ['/', '~', ''] }
  const paths = namesOf(path, folders)
  return { paths, searches: about.searches === true ? [...paths, ...folderNamesBelow(path, folders)] : [] }
}

/** A path as the tool takes it: without blanks around it, from the home folder behind a tilde, else from
 *  where its shell stands. */
function fromRoot(value: string, { home, folder }: Folders): string {
  const path = value.trim()
  const whole = path.startsWith('/') ? path : /^~(\/|$)/.test(path) ? home + path.slice(1) : `${folder}/${path}`
  return resolvePath(whole).replace(/(.)\/$/, '$1')
}

/** Where a search for a pattern begins: it may leave its folder. Null where it may go anywhere. */
function globbed(pattern: unknown, folder: string, folders: Folders): string | null {
  if (pattern === undefined) return folder
  if (typeof pattern !== 'string') return null
  const text = pattern.trim()
  if (!/^[/~]/.test(text)) return leavesFolder.test(text) ? null : folder
  const [fixed = ''] = /^[^*?[{(\\]*/.exec(text) ?? []
  if (fixed === text) return fromRoot(text, folders)
  return leavesFolder.test(text.slice(fixed.length)) ? null : fromRoot(fixed.slice(0, fixed.lastIndexOf('/') + 1), folders)
}
/** A step upwards, or an alternative that begins at the root or the home folder. */
const leavesFolder = /(^|[/{,(|])\.\.($|[/},)|])|[{,(|][/~]/

/** A path by its name from the root, from the home folder, and within the workspace. */
function namesOf(path: string, { workspace, home }: Folders): readonly string[] {
  const below = (folder: string) => (path.startsWith(`${folder}/`) ? [path.slice(folder.length + 1)] : [])
  return [
    path,
    ...(path === home ? ['~'] : below(home).map((rest) => `~/${rest}`)),
    ...(path === workspace ? [''] : below(workspace)),
  ]
}

/** A search from above goes through all of the workspace, or of the home folder. */
function folderNamesBelow(path: string, { workspace, home }: Folders): readonly string[] {
  const isAbove = (folder: string) => folder.startsWith(path === '/' ? path : `${path}/`)
  return [...(isAbove(home) ? ['~'] : []), ...(isAbove(workspace) ? [''] : [])]
}

/** Every command that a shell would run for this text. `elsewhere`: it does not stand in the workspace itself. */
export function commandsOf(text: string, elsewhere = false): readonly ShellCommand[] {
  if (text.length > textCharsMax || (text.match(/[({`]/g)?.length ?? 0) > openingsMax) return [anything]
  const found: ShellCommand[] = []
  readWhole(text, 0, found)
  if (found.length > commandsMax) return [...found.slice(0, commandsMax), anything]
  // A program that is named from the workspace on is another one in another folder.
  return elsewhere || found.some(({ words }) => changesFolder(words))
    ? found.map((one) => (/^[^/].*\//s.test(one.words[0] ?? '') ? { ...one, plain: false } : one))
    : found
}

/** What may set a variable, write a file or run more than its words tell. That is no reason to deny, and none to allow. */
const untold: ShellCommand = { words: [], plain: false }

/** Reads a text with all that shells in it run, which have its variables and its operands. */
function readWhole(text: string, depth: number, found: ShellCommand[]): void {
  const seen: Seen = { hidden: false, evaluated: false }
  readScript(text, depth, found, seen)
  if (seen.hidden && seen.evaluated) found.push(anything)
}

function readScript(text: string, depth: number, found: ShellCommand[], seen: Seen): void {
  if (depth > depthMax) {
    found.push(anything)
    return
  }
  const visit = (node: SyntaxNode): void => {
    if (found.length > commandsMax) return
    note(node, seen)
    if ('errors' in node && node.errors !== undefined && node.errors.length > 0) found.push(anything)
    switch (node.type) {
      case 'Command':
        readCommand(node, depth, found, seen)
        break
      case 'Redirected':
        // What a group writes, each of its commands may write.
        if (node.redirects.some(writesFile)) found.push(untold)
        break
      case 'ArithmeticCommand':
        // To a plain `sh`, two subshells.
        if (depth > 0) takeIn(mayRun(node.body), depth, found, seen)
        break
      default:
        break
    }
    forEachChild(node, visit)
  }
  const script = parse(text)
  visit(script)
  if (!isKnownWhole(script, text, depth === 0 ? 'bash' : 'any sh')) found.push(untold)
}

/** A shell that evaluates a text as arithmetic, or as a prompt, runs the substitutions that are quoted in it. So where both a quoted
 *  substitution and such an evaluation are seen, anything may run, and what is denied as well. */
type Seen = { hidden: boolean; evaluated: boolean }

function note(node: SyntaxNode, seen: Seen): void {
  switch (node.type) {
    case 'SingleQuoted':
    case 'AnsiCQuoted':
    case 'Literal':
      if (/\$\(|`|\$\{/.test(node.value)) seen.hidden = true
      break
    case 'Word':
      if (node.parts === undefined && /\$\(|`|\$\{/.test(node.value)) seen.hidden = true
      break
    case 'ArithmeticWord':
      if (/[A-Za-z_$]/.test(node.value)) seen.evaluated = true
      break
    case 'ArithmeticCommandExpansion':
      seen.evaluated = true
      break
    case 'TestUnary':
    case 'TestBinary':
      if (/^-(v|eq|ne|lt|gt|le|ge)$/.test(node.operator)) seen.evaluated = true
      break
    case 'Transform':
    case 'Slice':
      seen.evaluated = true
      break
    case 'ParameterExpansion':
      if (node.prefix === '!' || node.index !== undefined) seen.evaluated = true
      break
    default:
      break
  }
}

function readCommand(command: Command, depth: number, found: ShellCommand[], seen: Seen): void {
  const words = command.name === undefined ? [] : [wordOf(command.name), ...command.args.map(argumentOf)]
  const plain =
    command.prefix.every((one) => one.type !== 'Assignment' || isHarmless(one, words)) &&
    !command.redirects.some(writesFile) &&
    (words.length === 0 || tellsAll(words))
  // A redirection alone, or nothing at all: there is no program to allow.
  for (const one of [...command.prefix, ...command.args])
    if (one.type === 'Assignment') takeIn(assignmentInner(one), depth, found, seen)
  if (words.length > 0 || !plain) found.push({ words, plain, ...(plain && isIdle(words) ? { idle: true as const } : {}) })
  if (words.length === 0) return
  if (evaluates(words)) seen.evaluated = true
  if (depth > 0) takeIn(behindAmpersand(command), depth, found, seen)
  takeIn(innerOf(words, stdinOf(command)), depth, found, seen)
}

/** Whether a variable that is set for these words, or for all that follows where there are none, changes nothing about what is run. */
function isHarmless({ name, value, index }: Assignment, [program]: readonly ShellWord[]): boolean {
  if (index !== undefined || value.type !== 'Word') return false
  if (program === undefined) return isOwnVariable(name)
  return isHarmlessVariable(name, wordOf(value)) || (name === 'IFS' && program === 'read')
}

/** To a plain `sh`, `a &>file b` is `a` in the background, and `b`. */
function behindAmpersand({ args, redirects }: Command): Inner {
  const from = redirects.find((one) => one.type === 'Redirect' && one.operator.startsWith('&>'))?.pos
  return from === undefined ? nothing : guesses(args.filter(({ pos }) => pos > from).map(argumentOf))
}

function takeIn(inner: Inner, depth: number, found: ShellCommand[], seen: Seen): void {
  for (const script of inner.scripts) readScript(script, depth + 1, found, seen)
  for (const one of inner.commands) {
    if (found.length > commandsMax) return
    found.push(one.plain && !tellsAll(one.words) ? { ...one, plain: false } : one)
    if (one.guess !== true) readInner(one.words, depth + 1, found, seen)
  }
  for (const text of inner.guessed) {
    const inside: ShellCommand[] = []
    readWhole(text, depth + 1, inside)
    found.push(...inside.map((one) => ({ ...one, guess: true as const })))
  }
  if (inner.unknown) found.push(anything)
}

/** A command that another one runs may run one in turn. */
function readInner(words: readonly ShellWord[], depth: number, found: ShellCommand[], seen: Seen): void {
  if (depth > depthMax) {
    found.push(anything)
    return
  }
  if (evaluates(words)) seen.evaluated = true
  takeIn(innerOf(words, { kind: 'unknown' }), depth, found, seen)
}

/** A word's value, where it is certain. */
function wordOf(word: Word): ShellWord {
  // The home folder is put in for a tilde, at the start and after what looks like an assignment.
  if (/^~|[=:]~/.test(word.text)) return null
  const isFixed = (word.parts ?? []).every(
    (part) =>
      part.type === 'Literal' ||
      part.type === 'SingleQuoted' ||
      part.type === 'AnsiCQuoted' ||
      (part.type === 'DoubleQuoted' && part.parts.every((one) => one.type === 'Literal')),
  )
  return isFixed ? word.value : null
}

const assignmentInner = ({ name, value }: Assignment): Inner => variableInner(name, value.type === 'Word' ? wordOf(value) : null)

function argumentOf(argument: Command['args'][number]): ShellWord {
  if (argument.type === 'Word') return wordOf(argument)
  if (argument.index !== undefined || argument.value.type !== 'Word') return null
  const value = wordOf(argument.value)
  return value === null ? null : `${argument.name}${argument.append === true ? '+=' : '='}${value}`
}

/** Whether the shell writes a file here. Its own outputs and /dev/null are none, as long as no file that is read takes their place:
 *  `1<file >/dev/stdout` writes it. */
function writesFile(redirect: Redirection): boolean {
  const { descriptor } = redirect
  if (descriptor?.type === 'FileDescriptorVariable') return true
  if (redirect.type !== 'Redirect') return false
  if (redirect.operator === '<' || redirect.operator === '<&') return descriptor !== undefined && isOutput(descriptor)
  const target = redirect.target === undefined ? null : wordOf(redirect.target)
  if (target === '/dev/null' || target === '/dev/stdout' || target === '/dev/stderr') return false
  return !(redirect.operator === '>&' && target !== null && /^([12]-?|-)$/.test(target))
}

const isOutput = (descriptor: RedirectDescriptor): boolean =>
  descriptor.type !== 'FileDescriptor' || descriptor.value === 1 || descriptor.value === 2

/** What a command reads from its standard input, where its text says so. */
function stdinOf({ redirects }: Command): Stdin {
  // Which descriptor a redirection is about, and where it leads, may be changed by another: only one alone is certain.
  if (redirects.some(({ descriptor }) => descriptor !== undefined && isInput(descriptor))) return { kind: 'unknown' }
  const last = redirects.findLast((one) => one.type !== 'Redirect' || one.operator.startsWith('<'))
  if (last?.descriptor !== undefined) return { kind: 'unknown' }
  if (last?.type === 'HereString') {
    const text = last.target === undefined ? null : wordOf(last.target)
    return text === null ? { kind: 'unknown' } : { kind: 'text', text }
  }
  if (last?.type === 'HereDoc') {
    const { delimiter, body } = last
    const isFixed = delimiter?.quoted === true || (body.parts ?? []).every((part) => part.type === 'Literal')
    return isFixed && delimiter !== undefined && last.closing !== undefined
      ? { kind: 'text', text: body.text }
      : { kind: 'unknown' }
  }
  return { kind: 'unknown' }
}

/** Whether it could lead to the standard input, or make another out of it. */
const isInput = (descriptor: RedirectDescriptor): boolean =>
  descriptor.type !== 'FileDescriptor' || descriptor.value === 0 || descriptor.value > 2
