import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, test } from 'vitest'

const setup = (await import(pathToFileURL(join(import.meta.dirname, '../../bin/setup.mjs')).href)) as {
  startsCells(argv: readonly string[]): boolean
}

test.each([
  ['up', true],
  ['run say hello', true],
  ['--state /x sandbox -- make', true],
  ['claude .', true],
  ['prove --rung bwrap', true],
  ['provider add anthropic', true],
  ['provider ls', false],
  ['send last run it', false],
  ['search up', false],
  ['--state up status', false],
  ['--help', false],
])('startsCells(%j) is %j: bubblewrap is provided for commands that start cells', (line, expected) => {
  expect(setup.startsCells(line.split(' '))).toBe(expected)
})

test('no script of ours goes on with the Node that it found before the right one was installed', () => {
  const { scripts } = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8')) as {
    scripts: Record<string, string>
  }
  // A shell remembers where it found a program that it was told to run.
  const remembering = Object.entries(scripts).filter(([, line]) => /^node .*&& (?:\w+=\S+ )*node /.test(line))
  expect(remembering).toEqual([])
})
