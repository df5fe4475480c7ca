import type { Command, Option } from 'commander'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseAst } from 'rolldown/parseAst'
import { expect, test } from 'vitest'
import { program } from '../../scripts/reference.ts'

const root = join(import.meta.dirname, '../..')
const pages = [
  'README.md',
  'SECURITY.md',
  ...readdirSync(join(root, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
]

/** A command as somebody is told to type it. One that is only spoken of (`anchorhold show prints them`) may leave its arguments out. */
type Named = { readonly words: readonly string[]; readonly isSpokenOf: boolean }

/** What follows a command that a sentence speaks of. Any other word is taken for an argument. */
const proseWords = new Set(['allows', 'looks', 'names', 'prints', 'remembers', 'says', 'shows', 'wrote'])

/** What is hashed begins with such words, too. */
const hashed = /^anchorhold (?:(?:action|head|log|question) 1\n|key id$|session authority )/

/** The commands in a text: each goes on to the end of its line, a mark that ends a part of the sentence, or a word of prose. */
function commandsIn(text: string): readonly Named[] {
  return [...text.matchAll(/(?<![\w./@-])anchorhold (?=[a-z-])(.*)/g)].flatMap((match) => [
    commandOf(match[1]!),
    ...commandsIn(match[1]!),
  ])
}

function commandOf(line: string): Named {
  const words: string[] = []
  for (const [word] of line.matchAll(/"[^"]*"|\S+/g)) {
    if (proseWords.has(word)) return { words, isSpokenOf: true }
    if (/^[#(·]/.test(word)) break
    const bare = word === '.' || /^".*"$/.test(word) ? word : word.replace(/[,;:.)"]+$/, '')
    words.push(bare.replaceAll(/^\[|\]$/g, ''))
    if (bare !== word) break
  }
  return { words: words.filter((word) => word !== 'options'), isSpokenOf: false }
}

/** Why a command would not be taken; null when it would. */
function wrongWith({ words, isSpokenOf }: Named): string | null {
  const left = [...words]
  const given = new Set<Option>()
  const values: string[] = []
  let command: Command = program
  while (left.length > 0) {
    const word = left.shift()!
    // It stands for whatever may be there.
    if (word === '…') return null
    if (word === '--') values.push(...left.splice(0))
    else if (/^--?[a-z]/i.test(word)) {
      const [flag = '', value] = word.split('=')
      if (flag === '--help') return null
      const option = command.options.find(({ long, short }) => flag === long || flag === short)
      if (option === undefined) return `"${command.name()}" has no flag ${flag}`
      given.add(option)
      const problem = value === undefined ? takeValues(option, left, isSpokenOf) : null
      if (problem !== null) return problem
    } else if (command.commands.length > 0) {
      const next = command.commands.find((one) => one.name() === word || one.aliases().includes(word))
      if (next === undefined) return `"${command.name()}" has no command "${word}"`
      command = next
    } else values.push(word)
  }
  return lacking(command, values, given, isSpokenOf && values.length === 0)
}

/** Takes what a flag wants from the words behind it. */
function takeValues(option: Option, left: string[], isSpokenOf: boolean): string | null {
  if (!option.required && !option.optional) return null
  const value = left.shift()
  if (value === undefined) return option.required && !isSpokenOf ? `${option.long} has no value` : null
  while (option.variadic && left.length > 0 && !left[0]!.startsWith('-')) left.shift()
  return refused(option.argChoices, value)
}

function lacking(command: Command, values: readonly string[], given: ReadonlySet<Option>, isName: boolean): string | null {
  const { registeredArguments: wanted, options } = command
  if (values.length > wanted.length && wanted.at(-1)?.variadic !== true)
    return `"${command.name()}" does not take "${values[wanted.length]}"`
  for (const [at, value] of values.entries()) {
    const problem = refused(wanted[at]?.argChoices, value)
    if (problem !== null) return problem
  }
  if (isName) return null
  if (command.commands.length > 0) return `"${command.name()}" is not a whole command`
  const absent = wanted.slice(values.length).find(({ required }) => required)
  if (absent !== undefined && !values.at(-1)?.endsWith('…')) return `"${command.name()}" lacks <${absent.name()}>`
  const flag = options.find((option) => option.mandatory && !given.has(option))
  return flag === undefined ? null : `"${command.name()}" lacks ${flag.long}`
}

/** A word in capitals stands for another. */
const refused = (choices: readonly string[] | undefined, value: string): string | null =>
  choices === undefined || !/^[a-z_]+$/.test(value) || choices.includes(value)
    ? null
    : `"${value}" is none of ${choices.join(', ')}`

/** Every text in a source file. What is put into it as it runs becomes the word VALUE. */
function textsOf(source: string): readonly string[] {
  const texts: string[] = []
  walk(parseAst(source, { lang: 'tsx' }), (node) => {
    if (node.type === 'Literal' && typeof node.value === 'string') texts.push(node.value)
    if (node.type === 'TemplateLiteral') {
      const quasis = node.quasis as readonly { readonly value: { readonly cooked: string } }[]
      texts.push(quasis.map(({ value }) => value.cooked).join('VALUE'))
    }
    if (node.type === 'JSXElement') {
      const children = node.children as readonly Node[]
      texts.push(
        children
          .map(({ type, value }) => (type === 'JSXText' ? (value as string) : 'VALUE'))
          .join('')
          .replaceAll(/\s+/g, ' '),
      )
    }
  })
  return texts.filter((text) => !hashed.test(text))
}

type Node = { readonly type: string; readonly [key: string]: unknown }

function walk(value: unknown, see: (node: Node) => void): void {
  if (typeof value !== 'object' || value === null) return
  if ('type' in value) see(value as Node)
  for (const one of Object.values(value)) walk(one, see)
}

const problemsOf = (named: readonly Named[]) =>
  named.flatMap((one) => {
    const problem = wrongWith(one)
    return problem === null ? [] : [`anchorhold ${one.words.join(' ')}: ${problem}`]
  })

test.each([
  ['anchorhold disk', '"anchorhold" has no command "disk"'],
  ['store another: anchorhold provider add', '"add" lacks <name>'],
  ['anchorhold archive SESSION, then anchorhold purge SESSION', '"purge" lacks --confirm'],
  ['anchorhold image build dev, and then', '"build" does not take "dev"'],
  ['anchorhold up --public', '"up" has no flag --public'],
  ['anchorhold budget owner 5 --per', '--per has no value'],
  ['anchorhold run --rung vm "…"', '"vm" is none of'],
  ['anchorhold policy', '"policy" is not a whole command'],
])('wrongWith() sees what is wrong with %j', (text, problem) => {
  expect(problemsOf(commandsIn(text))).toEqual([expect.stringContaining(problem) as string])
})

test.each([
  'anchorhold show prints them',
  'anchorhold --state FOLDER up --port VALUE',
  'anchorhold sandbox [options] -- COMMAND…',
  'anchorhold usage --by session|group|day|model [--since 2026-11-30] [--csv]',
  'run "anchorhold doctor" again',
  'anchorhold run --secret deploy-key …',
])('wrongWith() takes %j', (text) => {
  expect(problemsOf(commandsIn(text))).toEqual([])
})

test.each(pages)('every command in %s is one that there is', (page) => {
  const text = readFileSync(join(root, page), 'utf8')
  const blocks = [...text.matchAll(/^```.*\n([^]*?)^```/gm)].map((match) => match[1]!)
  const spans = [...text.replaceAll(/^```[^]*?^```/gm, '').matchAll(/`([^`]+)`/g)].map((match) =>
    match[1]!.replaceAll(/\s+/g, ' '),
  )
  const named = [
    ...blocks.flatMap(commandsIn),
    // A sentence names a verb, or one of its flags, without all that belongs to it.
    ...spans.flatMap(commandsIn).map(({ words }) => ({ words, isSpokenOf: true })),
  ]
  expect(problemsOf(named)).toEqual([])
  expect(named.length).toBeGreaterThan(0)
})

test('every command that the house names in its own words is one that there is', () => {
  const packages = join(root, 'packages')
  const files = readdirSync(packages, { recursive: true, encoding: 'utf8' }).filter(
    (path) => /^\w+\/src\/.*\.tsx?$/.test(path) && !/\.test\.tsx?$/.test(path),
  )
  const found = files.flatMap((path) => {
    const source = readFileSync(join(packages, path), 'utf8')
    return source.includes('anchorhold ')
      ? textsOf(source)
          .flatMap(commandsIn)
          .map((named) => ({ path, named }))
      : []
  })
  expect(found.flatMap(({ path, named }) => problemsOf([named]).map((problem) => `${path}: ${problem}`))).toEqual([])
  expect(found.length).toBeGreaterThan(80)
})
