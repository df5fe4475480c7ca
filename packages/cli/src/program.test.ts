import type { Command } from 'commander'
import { expect, test } from 'vitest'
import { makeProgram } from './program.ts'
import { terminal } from './terminal.ts'

const program = makeProgram(terminal(process.stdout, process.stderr), '0')
const all = (command: Command): Command[] => [command, ...command.commands.flatMap(all)]
const takesPath = /[<[](dir|file|path)[\]>]/

test('every option that names a file or a folder refuses an empty one, which would be the folder that one is in', () => {
  const options = all(program).flatMap((command) =>
    command.options
      .filter(({ flags }) => takesPath.test(flags))
      .map(({ flags, parseArg }) => ({ name: `${command.name()} ${flags}`, parse: (text: string) => parseArg?.(text, []) })),
  )
  expect(options.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['anchorhold --state <dir>', 'run -w, --workspace <dir>', 'sandbox -w, --workspace <dir>']),
  )
  for (const { name, parse } of options) expect(() => parse(''), name).toThrow('It is empty')
  for (const { name, parse } of options) expect([parse('a')].flat(), name).toEqual(['a'])
})

test.each([[['token', 'revoke', '']], [['show', '']], [['rename', 'last', '']]])(
  '%j is refused before anybody is asked',
  async (words) => {
    const one = makeProgram(terminal(process.stdout, process.stderr), '0')
    await expect(one.parseAsync(words, { from: 'user' })).rejects.toMatchObject({
      code: 'bad_request',
      message: expect.stringMatching(/^What stands for <\w+> is empty$/) as string,
    })
  },
)

test('so does every argument, but for the folder of claude, which what comes after -- is none of', () => {
  const named = all(program).flatMap((command) =>
    command.registeredArguments
      .filter((one) => takesPath.test(one.required ? `<${one.name()}>` : `[${one.name()}]`))
      .map((one) => ({ name: command.name(), parse: one.parseArg })),
  )
  expect(named.map(({ name }) => name)).toEqual(expect.arrayContaining(['check', 'verify', 'export', 'claude']))
  for (const { name, parse } of named.filter((one) => one.name !== 'claude'))
    expect(() => parse?.('', undefined), name).toThrow('It is empty')
})
