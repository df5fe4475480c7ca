import { PassThrough } from 'node:stream'
import { expect, test, vi } from 'vitest'
import { ago, table, terminal } from './terminal.ts'

function screen(isTTY = false, columns?: number) {
  const [out, err] = [new PassThrough(), new PassThrough()].map((stream) => Object.assign(stream, { isTTY, columns }))
  const made = terminal(out as unknown as NodeJS.WriteStream, err as unknown as NodeJS.WriteStream)
  const read = (stream: PassThrough) => (stream.read() as Buffer | null)?.toString() ?? ''
  return { ...made, width: made.width, out: () => read(out!), err: () => read(err!) }
}

test('write() makes what would steer a terminal visible, however it is cut', () => {
  const { write, out } = screen()
  for (const piece of ['\u001b', '[2J', '\u009b1m', 'a\u202eb', '\r\u0007\u0000', 'plain\n']) write(piece)
  const shown = out()
  expect(shown).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/)
  expect(shown).toContain('plain\n')
})

test('write() puts a character together that was cut in two', () => {
  const { write, out } = screen()
  const [high, low] = ['\u{1f600}'.slice(0, 1), '\u{1f600}'.slice(1)]
  write(`a${high}`)
  write(`${low}b`)
  expect(out()).toBe('a\u{1f600}b')
})

test('line() begins on a line of its own', () => {
  const { write, line, out } = screen()
  write('half a line')
  line('ours')
  write('whole\n')
  line('ours')
  expect(out()).toBe('half a line\nours\nwhole\nours\n')
})

test.each([
  [120, 120],
  [0, 80],
  [undefined, 100],
])('width of a terminal that says %j', (columns, width) => {
  expect(screen(true, columns).width).toBe(width)
})

test('style() and spin() do nothing in a pipe', () => {
  const { style, spin, still, out, err } = screen()
  spin('working')
  still()
  expect([style('red', 'x'), out(), err()]).toEqual(['x', '', ''])
})

test('step() is a line beside the output in a pipe, and a running word on a terminal', () => {
  const piped = screen()
  piped.step('one')
  piped.step('two')
  expect([piped.out(), piped.err()]).toEqual(['', 'one\ntwo\n'])
  const shown = screen(true)
  shown.step('one')
  expect(shown.err()).toBe('')
  shown.still()
})

test('spin() runs on a terminal until something else is written', () => {
  vi.useFakeTimers()
  const { spin, line, out, err, style } = screen(true)
  spin('working')
  vi.advanceTimersByTime(200)
  expect(err()).toContain('working')
  line('done')
  expect(err()).toBe('\r\u001b[K')
  vi.advanceTimersByTime(1000)
  expect(err()).toBe('')
  expect(out()).toBe('done\n')
  expect(style('red', 'x')).toContain('\u001b[')
  vi.useRealTimers()
})

test('foreign() keeps to one line', () => {
  expect(screen().foreign('a\nb\tc\u001b[31m')).toBe('a␊b c␛[31m')
})

test('table() lines columns up, whatever colours they have', () => {
  const { style } = screen(true)
  const rows = table([
    ['a', style('red', 'long'), 'x'],
    ['bbb', 's', 'y'],
  ])
  expect(rows[0]?.replace(/\u001b\[\d+m/g, '')).toBe('a    long  x')
  expect(rows[1]).toBe('bbb  s     y')
})

test.each([
  [0, '0 s ago'],
  [-5000, '0 s ago'],
  [59_000, '59 s ago'],
  [120_000, '2 min ago'],
  [7_200_000, '2 h ago'],
  [172_800_000, '2 d ago'],
])('ago() says %d ms as %s', (ms, words) => {
  expect(ago(1_000_000_000 - ms, 1_000_000_000)).toBe(words)
})
