import { expect, test } from 'vitest'
import { choicesFor, completed, writingAt } from './completion.ts'

const known = {
  commands: [
    { name: 'compact', description: 'Make it short', hint: '[how]' },
    { name: 'init', description: '', hint: '' },
  ],
  files: ['src/app/main.ts', 'main.md', 'src/domain/a.ts', 'README.md'],
}

test.each([
  ['/', 1, { kind: 'command', typed: '', from: 0 }],
  ['/com', 4, { kind: 'command', typed: 'com', from: 0 }],
  ['say /com', 8, null],
  ['look at @src/a', 14, { kind: 'file', typed: 'src/a', from: 8 }],
  ['@', 1, { kind: 'file', typed: '', from: 0 }],
  ['me@home', 7, null],
  ['@main.md and', 12, null],
])('writingAt() of %j at %i is %j', (text, caret, writing) => {
  expect(writingAt(text, caret)).toEqual(writing)
})

test('choicesFor() gives what begins so before what only contains it', () => {
  expect(choicesFor({ kind: 'file', typed: 'main', from: 0 }, known).map(({ label }) => label)).toEqual([
    'main.md',
    'src/app/main.ts',
    'src/domain/a.ts',
  ])
  expect(choicesFor({ kind: 'command', typed: 'c', from: 0 }, known)).toEqual([
    { insert: '/compact ', label: '/compact [how]', about: 'Make it short' },
  ])
})

test('completed() puts the choice in place of what was typed, and leaves the rest', () => {
  const text = 'read @REA please'
  const writing = writingAt(text, 9)!
  expect(completed(text, 9, writing, choicesFor(writing, known)[0]!)).toEqual({ text: 'read @README.md please', caret: 16 })
})
