import { expect, test } from 'vitest'
import { printable, printableExactly, printableLine } from './printable.ts'

test.each([
  ['keeps ordinary text, line feeds and tabs', 'grüße\n\tこんにちは 👍🏽', 'grüße\n\tこんにちは 👍🏽'],
  ['shows an escape sequence', '\u001b[31mred\u001b[0m', '␛[31mred␛[0m'],
  ['shows a carriage return that would overwrite a line', 'rm -rf /\rls', 'rm -rf /␍ls'],
  ['shows a backspace', 'a\bb', 'a␈b'],
  ['shows C1 controls', 'a\u009b31mb', 'a\\u{9b}31mb'],
  ['shows a direction override', 'a\u202eb', 'a\\u{202e}b'],
  ['shows zero-width characters', 'pay\u200bpal', 'pay\\u{200b}pal'],
  ['shows tag characters', 'a\u{e0041}b', 'a\\u{e0041}b'],
  ['shows a lone surrogate', 'a\ud800b', 'a\\u{d800}b'],
  ['shows DEL', 'a\u007fb', 'a␡b'],
  ['shows what formats shorthand and hieroglyphs', 'a\u{1bca0}b\u{13430}c', 'a\\u{1bca0}b\\u{13430}c'],
  [
    'keeps the selector of an emoji, and shows one that nobody would see',
    '❤\ufe0f cat a\ufe0f.txt',
    '❤\ufe0f cat a\\u{fe0f}.txt',
  ],
  ['shows every mark that changes the direction', 'a\u061c\u200e\u2066b', 'a\\u{61c}\\u{200e}\\u{2066}b'],
  ['keeps spaces of other languages', 'Ça va\u00a0? 日本\u3000語', 'Ça va\u00a0? 日本\u3000語'],
])('printable() %s', (_, text, shown) => {
  expect(printable(text)).toBe(shown)
})

test('printableLine() keeps a line one line', () => {
  expect(printableLine('a\nb\tc')).toBe('a␊b c')
})

test('printableLine() shows what looks like a space and is none', () => {
  expect(printableLine('rm -rf\u00a0/x a\u2003b c\u2800d')).toBe('rm -rf\\u{a0}/x a\\u{2003}b c\\u{2800}d')
})

test('printableExactly() tells every space from the plain one, and keeps lines', () => {
  expect(printableExactly('./deploy\u00a0staging\n\tnow\u2800')).toBe('./deploy\\u{a0}staging\n\tnow\\u{2800}')
})
