import { describe, expect, test } from 'vitest'
import { commandLine } from './first-command.ts'

const path = { PATH: '/usr/bin:/bin' }

describe('commandLine()', () => {
  test('is one line, whatever the words hold', () => {
    const line = commandLine(['a\nb', "it's"], { env: { ...path, TWO: '1\n2' }, cwd: '/w\n' })
    expect(line?.indexOf('\n')).toBe(line!.length - 1)
  })

  test.each(['PWD', 'IFS', 'UID', '_', '__told', 'a-b', 'a.b', '1', 'BASH_FUNC_x%%', ''])(
    'leaves a command to bwrap whose environment no shell can hand on (%s)',
    (name) => expect(commandLine(['true'], { env: { ...path, [name]: '' }, cwd: '/' })).toBeNull(),
  )

  test('leaves a command to bwrap that has no PATH', () => {
    expect(commandLine(['true'], { env: { HOME: '/' }, cwd: '/' })).toBeNull()
  })
})
