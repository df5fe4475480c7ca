import { execFileSync } from 'node:child_process'
import { describe, expect, test } from 'vitest'
import { commandLine, waiting } from './first-command.ts'
import { hereLine } from './proof.ts'

const path = { PATH: '/usr/bin:/bin' }

describe('commandLine()', () => {
  test('is one line, whatever the words hold', () => {
    const line = commandLine(['/bin/a\nb', "it's"], { env: { ...path, TWO: '1\n2' }, cwd: '/w\n' })
    expect(line?.indexOf('\n')).toBe(line!.length - 1)
  })

  test.each(['PWD', 'IFS', 'UID', 'RANDOM', 'LC_ALL', '_', '__told', 'a-b', 'a.b', '1', 'BASH_FUNC_x%%', ''])(
    'leaves a command to bwrap whose environment no shell can hand on (%s)',
    (name) => expect(commandLine(['/bin/true'], { env: { ...path, [name]: '' }, cwd: '/' })).toBeNull(),
  )

  test.each([
    ['has no PATH', ['/bin/true'], { HOME: '/' }],
    ['is not called by its path', ['true'], path],
    ['is none', ['/bin/true', 'a\0b'], path],
    ['has an environment that is none', ['/bin/true'], { ...path, A: '\0' }],
  ] as const)('leaves a command to bwrap that %s', (_, argv, env) => {
    expect(commandLine(argv, { env, cwd: '/' })).toBeNull()
  })
})

test('a line that was not told to its end is not done', () => {
  const [shell, ...args] = waiting
  const after = (input: string) => {
    const script = `${shell} "$@" || true`
    return execFileSync('/bin/sh', ['-c', script, 'sh', ...args], { input, encoding: 'utf8' }).split(`${hereLine}\n`)[1]
  }
  expect([after('echo done\n'), after('echo done')]).toEqual(['done\n', ''])
})
