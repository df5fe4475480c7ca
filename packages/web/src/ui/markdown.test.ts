import { createElement } from 'react'
import { renderToStaticMarkup } from 'react-dom/server'
import { beforeAll, expect, test, vi } from 'vitest'
import { Markdown } from './Markdown.tsx'
import { readable, safeLink } from './markdown-bounds.ts'

const html = (text: string, growing = false) => renderToStaticMarkup(createElement(Markdown, { text, growing }))

beforeAll(async () => {
  expect(html('**bold** <b>')).toBe('<div class="prose whitespace-pre-wrap">**bold** &lt;b&gt;</div>')
  await import('./RichText.tsx')
  await vi.waitUntil(() => html('**bold**').includes('<strong>'))
})

test.each([
  '<script>alert(1)</script>',
  '<img src=x onerror=alert(1)>',
  '<svg onload=alert(1)><script>1</script></svg>',
  '<iframe src="https://evil.example"></iframe>',
  '<style>*{display:none}</style>',
  '<a href="javascript:alert(1)">x</a>',
  '<button>Allow once</button>',
  '<form action="https://evil.example"><input></form>',
  '<div style="position:fixed;inset:0">Anchorhold</div>',
  '<!-- --><b>x</b>',
])('Markdown shows the tag %s as text', (text) => {
  const shown = html(text)
  expect(shown).not.toMatch(/<(script|img|svg|iframe|style|form|input|b|a|button)\b(?![^>]*aria-label)/)
  expect(shown).toContain('&lt;')
})

test.each([
  'javascript:alert(1)',
  'JaVaScRiPt:alert(1)',
  'java\tscript:alert(1)',
  '&#106;avascript:alert(1)',
  'data:text/html,<script>1</script>',
  'vbscript:x',
  'file:///etc/passwd',
  'blob:https://x/1',
  '/api/v1/panic',
  '//evil.example',
  '#login=x',
])('Markdown makes no link to %s', (target) => {
  for (const text of [`[click](${target})`, `[click](<${target}>)`, `[click][1]\n\n[1]: ${target}`, `<${target}>`])
    expect(html(text)).not.toMatch(/href=/)
})

test('Markdown says where a link leads that does not say so itself, and gives it no way back', () => {
  const shown = html('[your bank](https://evil.example/login)')
  expect(shown).toContain('(evil.example)')
  expect(shown).toContain('rel="noopener noreferrer nofollow"')
  expect(html('https://good.example/x')).not.toContain('(good.example)')
})

test.each([
  ['[https://microsoft.com/login](https://t.co/x)', 't.co'],
  ['[https://github.com/evil.co/pull/3](https://evil.co/)', 'evil.co'],
  ['[github.com, not evil.co](https://evil.co/)', 'evil.co'],
  ['[https://github.com@evil.co/](https://github.com@evil.co/x)', 'evil.co'],
  ['[https://аpple.com/](https://аpple.com/)', 'xn--pple-43d.com'],
  ['[](https://evil.co/)', 'evil.co'],
])('Markdown says where %s leads, whatever it looks like', (text, host) => {
  expect(html(text)).toContain(`(${host})`)
})

test.each([
  'https://good.example/x?y#z',
  'www.good.example',
  '[good.example](https://good.example/)',
  '[`Good.example/x`](https://good.example/y)',
  'a@good.example',
  '<mailto:a@good.example>',
])('Markdown does not say again where %s leads', (text) => {
  expect(html(text)).toContain('href=')
  expect(html(text)).not.toContain('(')
})

test('Markdown loads no picture, from nowhere', () => {
  for (const text of [
    '![beacon](https://evil.example/?secret)',
    '![x](data:image/svg+xml,<svg/>)',
    '![x](/icon.svg)',
    '![x][i]\n\n[i]: //e.x/p',
  ])
    expect(html(text)).not.toMatch(/<img|src=/)
  expect(html('![beacon](https://evil.example/?secret)')).toContain('not loaded from evil.example')
})

test('Markdown makes control and direction characters visible', () => {
  const shown = html('a\u202Eb \u001b[31m c\u200bd `e\u2066f`')
  expect(shown).not.toMatch(/[\u202e\u001b\u200b\u2066]/)
  expect(shown).toContain('\\u{202e}')
})

test.each([
  ['nested quotes', '>'.repeat(5000) + ' x'],
  [
    'nested lists',
    Array.from({ length: 60 }, (_, n) => `${' '.repeat(n * 2)}- x`)
      .join('\n')
      .replaceAll('- x', '- - - - - - - - - - - - - - - - - - - - - x'),
  ],
  ['a long line', 'x'.repeat(10_000_000)],
  ['many marks', '['.repeat(50_000)],
  ['many stars', '*'.repeat(50_000)],
  ['a long text', 'word\n'.repeat(50_000)],
  ['lists in lists', Array.from({ length: 200 }, (_, n) => `${' '.repeat(n * 2)}- x`).join('\n')],
  ['a table of nothing else', `|a|b|\n|-|-|\n${'|a|b|\n'.repeat(5000)}`],
  ['thousands of links', '[a](http://b.example) '.repeat(100).concat('\n').repeat(25)],
  ['one address named thousands of times', `[a]: http://b.example\n\n${'[a]\n'.repeat(14_000)}`],
  ['stars within words', 'a**b_c\n'.repeat(8000)],
  ['thousands of blocks of code', '```\na\n```\n'.repeat(5000)],
  ['thousands of headings', '# a\n'.repeat(14_000)],
])('Markdown shows %s as it is, without taking it apart', (_, text) => {
  expect(readable(text).markdown).toBe(false)
  expect(html(text).length).toBeLessThan(200_000)
})

test('Markdown of half a text is whole', () => {
  expect(html('**bold', true)).toContain('<strong>')
  expect(html('```ts\nconst a', true)).toContain('const a')
})

test('safeLink() takes pages and mailboxes alone', () => {
  expect(safeLink('https://a.example/x')).toEqual({ href: 'https://a.example/x', host: 'a.example' })
  expect(safeLink('mailto:a@b.example')?.host).toBe('a@b.example')
  expect(safeLink('ftp://a')).toBeNull()
  expect(safeLink(undefined)).toBeNull()
})
