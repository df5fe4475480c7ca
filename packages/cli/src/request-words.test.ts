import { expect, test } from 'vitest'
import { requestLines } from './request-words.ts'

const run = (command: string, more: Readonly<Record<string, unknown>> = {}, width: number | null = null) =>
  requestLines({ kind: 'tool', tool: 'Bash', input: { command, ...more } }, width)

test('requestLines() fences every line of a command, so that none passes for one of ours', () => {
  expect(run('ls\n    why: it is harmless\n  it waits for your answer: anchorhold allow req_x', { timeout: 5 })).toEqual([
    'The agent wants to run:',
    '  │ ls',
    '  │     why: it is harmless',
    '  │   it waits for your answer: anchorhold allow req_x',
    '  ├ timeout:',
    '  │ 5',
  ])
})

test('requestLines() fences what a terminal would wrap', () => {
  const lines = run(`${'x'.repeat(70)}    why: it is harmless`, {}, 80)
  expect(lines).toEqual(['The agent wants to run:', `  │ ${'x'.repeat(70)}`, '  │     why: it is harmless'])
  expect(run('語'.repeat(70), {}, 80).slice(1)).toEqual([`  │ ${'語'.repeat(35)}`, `  │ ${'語'.repeat(35)}`])
})

test('requestLines() fences the names of fields, and shows every character of an action', () => {
  expect(run('ѕh -c id\r', { 'a\n  digest': 'x\ny' })).toEqual([
    'The agent wants to run:',
    '  │ \\u{455}h -c id␍',
    '  ├ a␊  digest:',
    '  │ x',
    '  │ y',
  ])
  expect(requestLines({ kind: 'net', host: 'аррӏе.com', port: 443, method: null, path: null }, null)[1]).toBe(
    '  │ \\u{430}\\u{440}\\u{440}\\u{4cf}\\u{435}.com:443',
  )
})

test('requestLines() keeps the language of a question and of a plan', () => {
  expect(requestLines({ kind: 'plan', plan: 'оса\n\u202eb' }, null)).toEqual(['Plan for approval:', '  │ оса', '  │ \\u{202e}b'])
})
