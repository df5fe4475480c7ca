import { expect, test } from 'vitest'
import { printable, printableAction, printableActionLine, printableExactly, printableLine } from './printable.ts'

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
  ['shows private-use and unassigned characters', 'a\ue000b\u{10fffd}c\u0378', 'a\\u{e000}b\\u{10fffd}c\\u{378}'],
  ['shows what is piled upon a letter', `a${'\u0301'.repeat(6)}b`, `a${'\u0301'.repeat(4)}\\u{301}\\u{301}b`],
  ['keeps marks as languages have them', 'Tiếng Việt e\u0302\u0301 שָׁלוֹם ท้ํ हिन्दी', 'Tiếng Việt e\u0302\u0301 שָׁלוֹם ท้ํ हिन्दी'],
  ['keeps another language', 'Правка с тестами: оса, α и ω', 'Правка с тестами: оса, α и ω'],
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

test.each([
  ['shows a letter of another alphabet in a word', 'ѕh -c id', '\\u{455}h -c id'],
  ['shows a whole word that passes for one of ASCII', 'ср a b', '\\u{441}\\u{440} a b'],
  ['shows it in a host', 'GET аррӏе.com:443/', 'GET \\u{430}\\u{440}\\u{440}\\u{4cf}\\u{435}.com:443/'],
  ['shows it in a path', '/usr/bіn/git', '/usr/b\\u{456}n/git'],
  ['shows Greek letters that look like ASCII', 'gιt ρush', 'g\\u{3b9}t \\u{3c1}ush'],
  ['shows wide letters', 'ｓｈ ls；rm', '\\u{ff53}\\u{ff48} ls\\u{ff1b}rm'],
  ['shows mathematical letters', '𝗌𝗁 x', '\\u{1d5cc}\\u{1d5c1} x'],
  ['shows ligatures and Roman numerals', 'ﬁnd ⅼs', '\\u{fb01}nd \\u{217c}s'],
  ['shows a dash that is none', 'rm –rf —x a–b', 'rm \\u{2013}rf \\u{2014}x a–b'],
  ['shows a slash that is none', 'a∕b', 'a\\u{2215}b'],
  ['shows a mark on a sign', 'a /\u0338 b', 'a /\\u{338} b'],
  ['shows what would pass for a line feed of ours', 'a␊b', 'a\\u{240a}b'],
  ['shows a dotless i', 'gıt', 'g\\u{131}t'],
  [
    'keeps words of other languages',
    "git commit -m 'Правка парсера — naïve café 修复 Node.jsのテスト x² λx 👍🏽 “ü”'",
    "git commit -m 'Правка парсера — naïve café 修复 Node.jsのテスト x² λx 👍🏽 “ü”'",
  ],
  ['keeps lines', 'a\n\tb', 'a\n\tb'],
])('printableAction() %s', (_, text, shown) => {
  expect(printableAction(text)).toBe(shown)
})

test('printableActionLine() keeps an action on one line', () => {
  expect(printableActionLine('ѕh\nls')).toBe('\\u{455}h␊ls')
})

test.each([
  ['marks', '\u0301'.repeat(100_000)],
  ['letters', 'ѕh'.repeat(50_000)],
  ['dashes', '–'.repeat(100_000)],
  ['digits', '1'.repeat(100_000)],
])('printableAction() is done soon with many %s', { timeout: 10_000 }, (_, text) => {
  expect(printableAction(text).length).toBeGreaterThanOrEqual(text.length)
})
