// Writes the parts of the docs that are made from schemas and tables. A test holds the docs to them.
//   node scripts/reference.ts
import { exitCodes } from '@anchorhold/cli/exit-codes'
import { makeProgram } from '@anchorhold/cli/program'
import { terminal } from '@anchorhold/cli/terminal'
import { ConfigFile } from '@anchorhold/daemon/config-file'
import { policySchemas } from '@anchorhold/daemon/policy/policy-schema'
import { Rule } from '@anchorhold/protocol/policy'
import type { Argument, Command } from 'commander'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'

const root = join(import.meta.dirname, '..')
export const documents = ['docs/operating.md', 'docs/policy.md', 'docs/commands.md'].map((name) => join(root, name))

const parts: Readonly<Record<string, () => string>> = {
  config: () => table(['key', 'default', 'meaning'], configRows('', z.toJSONSchema(ConfigFile, { io: 'input' }) as Schema)),
  policy: () =>
    table(['key', 'meaning'], withoutDefault(configRows('', z.toJSONSchema(policySchemas.file, { io: 'input' }) as Schema))),
  matches: () => table(['on', 'match', 'meaning'], Rule.options.flatMap(matchRows)),
  exits: () => table(['code', 'meaning'], Object.entries(exitCodes)),
  commands: () => [commandTable(), ...verbs.map(commandSection)].join('\n\n'),
}

export const program = makeProgram(terminal(process.stdout, process.stderr), '')
const verbs = verbsOf(program)

/** The document with every marked part made anew. */
export function withReferences(text: string): string {
  return text.replace(
    /(<!-- (\w+): made by scripts\/reference\.ts -->\n)[^]*?(<!-- \/\2 -->)/g,
    (_, begin: string, name: string, end: string) => `${begin}\n${parts[name]!()}\n\n${end}`,
  )
}

type Schema = { properties?: Record<string, Schema>; default?: unknown; description?: string }

function configRows(prefix: string, { properties = {} }: Schema): string[][] {
  return Object.entries(properties).flatMap(([name, schema]) => {
    const key = `${prefix}${name}`
    if (schema.properties !== undefined) return [[`\`${key}\``, '', schema.description ?? ''], ...configRows(`${key}.`, schema)]
    const value = schema.default === undefined ? '' : `\`${JSON.stringify(schema.default)}\``
    return [[`\`${key}\``, value, schema.description ?? '']]
  })
}

/** Every command that does something by itself, in the order of the help. */
function verbsOf(command: Command): readonly Command[] {
  return command.commands.flatMap((one) => (one.commands.length === 0 ? [one] : verbsOf(one)))
}

/** `user add`, of the command by which users are added. */
function nameOf(command: Command): string {
  const above = command.parent
  return above === null || above === program ? command.name() : `${nameOf(above)} ${command.name()}`
}

function commandTable(): string {
  const rows = verbs.map((one) => [`[\`${nameOf(one)}\`](#${nameOf(one).replaceAll(' ', '-')})`, one.summary()])
  return `${table(['command', 'what it does'], rows)}\n\nBefore any of them:\n\n${wordTable(program)}`
}

function commandSection(command: Command): string {
  const named = command.aliases().map((alias) => ` Also \`${alias}\`.`)
  const words = command.description() || `${command.summary().charAt(0).toUpperCase()}${command.summary().slice(1)}.`
  const usage = [
    `anchorhold ${nameOf(command)}`,
    ...(command.options.every(({ mandatory }) => mandatory) ? [] : ['[options]']),
    ...command.registeredArguments.map(argumentWord),
    ...command.options.filter(({ mandatory }) => mandatory).map(({ flags }) => flags),
  ].join(' ')
  const parts = [`## ${nameOf(command)}`, `\`${usage}\``, `${words}${named.join('')}`, wordTable(command)]
  return parts.filter((part) => part !== '').join('\n\n')
}

/** Arguments and flags, in the words of the help. */
function wordTable(command: Command): string {
  const help = command.createHelp()
  const rows = [
    ...command.registeredArguments.map((one) => [`\`${argumentWord(one)}\``, help.argumentDescription(one)]),
    ...command.options.map((one) => [`\`${help.optionTerm(one)}\``, help.optionDescription(one).replace(' (default: [])', '')]),
  ]
  return rows.length === 0 ? '' : table(['word', 'meaning'], rows)
}

function argumentWord(argument: Argument): string {
  const name = `${argument.name()}${argument.variadic ? '...' : ''}`
  return argument.required ? `<${name}>` : `[${name}]`
}

const withoutDefault = (rows: readonly (readonly string[])[]) => rows.map(([key = '', , meaning = '']) => [key, meaning])

/** What a rule of one kind may say of actions. In files, money is written as dollars. */
function matchRows(option: (typeof Rule)['options'][number]): string[][] {
  const { match } = option.shape
  return Object.entries(match.shape as Record<string, z.ZodType>).map(([name, schema]) => [
    option.shape.on.value,
    `\`${name === 'above_nanos' ? 'above' : name}\``,
    schema.description ?? matchWords[name] ?? '',
  ])
}

const matchWords: Readonly<Record<string, string>> = {
  port: 'Its port; any otherwise',
  method: 'One method, or a list of them',
  path: 'Its path; with a `?` in it, its query too',
  program: 'The name of the program',
  params: 'Its parameters',
  provider: 'The provider of the call',
  model: 'Its model',
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')
}

if (process.argv[1] === import.meta.filename) {
  for (const path of documents) writeFileSync(path, withReferences(readFileSync(path, 'utf8')))
}
