// Draws what a command shows on a terminal as an SVG, for the README.
//   node scripts/picture.ts OUT.svg TITLE COMMAND…
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'

const [out, title = '', ...command] = process.argv.slice(2)
if (out === undefined || command.length === 0) {
  console.error('usage: picture OUT.svg TITLE COMMAND…')
  process.exit(64)
}

// A terminal of its own, so that colours are on; util-linux has one to lend.
const columns = 96
const quoted = command.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ')
const { stdout } = spawnSync('script', ['-qec', `stty cols ${columns}; ${quoted}`, '/dev/null'], {
  encoding: 'utf8',
  maxBuffer: 10_000_000,
})

type Span = { text: string; colour: string; bold: boolean; dim: boolean }
const colours: Readonly<Record<number, string>> = { 31: '#f7768e', 32: '#9ece6a', 33: '#e0af68', 34: '#7aa2f7', 36: '#7dcfff' }
const plain = '#c0caf5'

const lines: Span[][] = []
let line: Span[] = []
let style = { colour: plain, bold: false, dim: false }
for (const [, code, letter, text] of stdout.matchAll(/\u001b\[([\d;]*)([A-Za-z])|([^\u001b]+)/g)) {
  if (text !== undefined) {
    for (const piece of text.replaceAll('\r\n', '\n').split(/(\n|\r)/)) {
      if (piece === '\n') {
        lines.push(line)
        line = []
      } else if (piece === '\r') line = []
      else if (piece !== '') line.push({ text: piece, ...style })
    }
  } else if (letter === 'K') line = []
  else if (letter === 'm') {
    for (const number of (code === '' ? '0' : code!).split(';').map(Number)) {
      if (number === 0) style = { colour: plain, bold: false, dim: false }
      else if (number === 1) style.bold = true
      else if (number === 2) style.dim = true
      else if (number === 22) style = { ...style, bold: false, dim: false }
      else if (number === 39) style.colour = plain
      else if (colours[number] !== undefined) style = { ...style, colour: colours[number] }
    }
  }
}
if (line.length > 0) lines.push(line)
const shown: Span[][] = [
  [
    { text: '$ ', colour: '#565f89', bold: false, dim: false },
    { text: title, colour: plain, bold: true, dim: false },
  ],
  ...lines.flatMap(wrapped),
]

/** As a terminal of that width shows it. */
function wrapped(spans: readonly Span[]): Span[][] {
  const rows: Span[][] = [[]]
  let room = columns
  for (const span of spans) {
    for (let { text } = span; text !== '';) {
      if (room === 0) {
        rows.push([])
        room = columns
      }
      const piece = text.slice(0, room)
      rows.at(-1)!.push({ ...span, text: piece })
      room -= piece.length
      text = text.slice(piece.length)
    }
  }
  return rows
}

const escape = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
const [charWidth, lineHeight, padding] = [8.4, 20, 20]
const width =
  Math.ceil(Math.max(...shown.map((spans) => spans.reduce((sum, { text }) => sum + text.length, 0)), 60) * charWidth) +
  2 * padding
const height = shown.length * lineHeight + 2 * padding + 16
const rows = shown.map((spans, index) => {
  const words = spans.map(
    ({ text, colour, bold, dim }) =>
      `<tspan fill="${colour}"${bold ? ' font-weight="700"' : ''}${dim ? ' fill-opacity=".6"' : ''}>${escape(text)}</tspan>`,
  )
  return `<text x="${padding}" y="${padding + 26 + index * lineHeight}" xml:space="preserve">${words.join('')}</text>`
})
const dots = ['#f7768e', '#e0af68', '#9ece6a'].map(
  (fill, index) => `<circle cx="${padding + 4 + index * 18}" cy="16" r="5" fill="${fill}"/>`,
)
writeFileSync(
  out,
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" role="img" aria-label="${escape(title)}">
<rect width="100%" height="100%" rx="10" fill="#1a1b26"/>
${dots.join('')}
<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14">
${rows.join('\n')}
</g>
</svg>
`,
)
