import { expect, test } from 'vitest'
import { pageText } from './page-text.ts'

const read = (html: string, type = 'text/html; charset=utf-8', charsMax = 10_000) =>
  pageText({ url: 'https://a.test/docs/page', type, bytes: Buffer.from(html) }, charsMax)
const long = 'Words that matter. '.repeat(20)

test('pageText() gives headings, lists, code and links, and nothing that is not shown', () => {
  const page = read(`<!doctype html><html><head><title> A
    page </title><style>p{}</style><script>evil()</script></head><body>
    <nav><a href="/home">Home</a></nav>
    <main><h1>Head &amp; shoulders</h1><p>One   <b>two</b>
    three, <a href="../other?x=1#y">there</a> and <a href="#here">here</a>, <a href="javascript:x()">not</a>.</p>
    <ul><li>first<li>second</ul><pre><code>a  b
  c</code></pre><noscript>hidden</noscript><p>${long}</p></main><footer>Imprint</footer></body></html>`)
  expect(page?.title).toBe('A page')
  expect(page?.text).toContain('# Head & shoulders\n\nOne two three, [there](https://a.test/other?x=1#y) and here, not.')
  expect(page?.text).toContain('- first\n- second')
  expect(page?.text).toContain('```\na  b\n  c\n```')
  for (const gone of ['evil', 'p{}', 'hidden', 'Home', 'Imprint']) expect(page?.text).not.toContain(gone)
})

test('pageText() takes what stands around a page when there is nothing else', () => {
  expect(read('<nav>Only this</nav>')?.text).toBe('Only this')
  expect(read(`<div>${long}</div><article>short</article>`)?.text).toContain('Words that matter')
})

test('pageText() passes other text on as it is, cuts it at its limit, and reads nothing else', () => {
  expect(read('{"a": "<b>"}', 'application/json')).toEqual({ title: '', text: '{"a": "<b>"}', truncated: false })
  expect(read('x'.repeat(50), 'text/plain', 10)).toEqual({ title: '', text: 'x'.repeat(10), truncated: true })
  for (const type of ['image/png', 'application/octet-stream', 'application/pdf']) expect(read('x', type)).toBeNull()
  expect(read('a\0b', '')).toBeNull()
  const bytes = Buffer.from([0xe4, 0xf6])
  expect(pageText({ url: 'https://a.test/', type: 'text/plain; charset=latin1', bytes }, 10)?.text).toBe('äö')
  expect(pageText({ url: 'https://a.test/', type: 'text/plain; charset=nonsense', bytes: Buffer.from('ä') }, 10)?.text).toBe('ä')
  const meta = Buffer.concat([Buffer.from('<meta charset="iso-8859-1"><p>'), bytes])
  expect(pageText({ url: 'https://a.test/', type: 'text/html', bytes: meta }, 10)?.text).toBe('äö')
})

test.each([
  ['nothing but opened tags', '<div>'.repeat(20_000)],
  ['nothing but closed tags', '</div>'.repeat(50_000)],
  ['tags within tags', '<<<<'.repeat(20_000)],
  ['an attribute without end', `<a href="${'x'.repeat(200_000)}`],
  ['a comment without end', `<!--${'-'.repeat(200_000)}`],
  ['closed code and titles', '</pre></code></title></a>'.repeat(5000)],
  ['brackets', '[]('.repeat(30_000)],
])('pageText() gets through %s', (_, html) => {
  expect(read(html, 'text/html', 1000)).not.toBeNull()
})
