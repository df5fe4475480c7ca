import { printable, printableLine } from '@anchorhold/core/printable'
import { styleText } from 'node:util'

type Style = Parameters<typeof styleText>[0]

/** Where a command writes: coloured on a terminal, plain in a pipe. */
export interface Terminal {
  readonly interactive: boolean
  readonly width: number
  /** A whole line of our own words. */
  line(text?: string): void
  /** Words of our own, in a style. */
  style(style: Style, text: string): string
  /** Text from a cell, a repository or a provider: made printable, kept to one line. */
  foreign(text: string): string
  /** A running word on the last line of a terminal; nothing in a pipe. */
  spin(label: string): void
  /** A step of something long: as a running word, and in a pipe as a line beside the output. */
  step(label: string): void
  /** Takes the running word away. Every other call here does so first. */
  still(): void
  /** Text from a cell as it streams: made printable, line by line as it comes. */
  write(text: string, style?: Style): void
  error(text: string): void
}

export function terminal(stdout: NodeJS.WriteStream, stderr: NodeJS.WriteStream): Terminal {
  const interactive = stdout.isTTY === true
  let timer: NodeJS.Timeout | null = null
  let column = 0
  let half = ''
  const still = () => {
    if (timer === null) return
    clearInterval(timer)
    timer = null
    stderr.write('\r\u001b[K')
  }
  const style = (how: Style, text: string) => (interactive ? styleText(how, text, { validateStream: false }) : text)
  const canSpin = interactive && stderr.isTTY === true
  const spin = (label: string) => {
    still()
    if (!canSpin || column > 0) return
    const frames = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏']
    let turn = 0
    timer = setInterval(
      () => stderr.write(`\r${style('cyan', frames[turn++ % frames.length]!)} ${style('dim', label)}\u001b[K`),
      80,
    )
    timer.unref()
  }
  return {
    interactive,
    get width() {
      // Some terminals do not say how wide they are: they are 0 wide.
      return stdout.columns === 0 ? 80 : (stdout.columns ?? 100)
    },
    line(text = '') {
      still()
      if (column > 0) stdout.write('\n')
      column = 0
      stdout.write(`${text}\n`)
    },
    style,
    foreign: printableLine,
    write(text, how) {
      still()
      // A character may be cut in two where a chunk ends: its first half waits for the second.
      const whole = half + text
      half = /[\ud800-\udbff]$/.test(whole) ? whole.slice(-1) : ''
      const clean = printable(half === '' ? whole : whole.slice(0, -1))
      stdout.write(how === undefined ? clean : style(how, clean))
      const end = clean.lastIndexOf('\n')
      column = end === -1 ? column + clean.length : clean.length - end - 1
    },
    spin,
    step(label) {
      if (canSpin) spin(label)
      else stderr.write(`${label}\n`)
    },
    still,
    error(text) {
      still()
      stderr.write(`${text}\n`)
    },
  }
}

/** Columns, each as wide as its widest cell; the last one is left as it is. */
export function table(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = []
  for (const row of rows)
    for (const [index, cell] of row.entries()) widths[index] = Math.max(widths[index] ?? 0, bare(cell).length)
  return rows.map((row) =>
    row
      .map((cell, index) => (index === row.length - 1 ? cell : cell + ' '.repeat(widths[index]! - bare(cell).length)))
      .join('  '),
  )
}

/** Without our own styling. */
const bare = (text: string) => text.replace(new RegExp(`${String.fromCharCode(27)}\\[[0-9;]*m`, 'g'), '')

export const ago = (at: number, now = Date.now()): string => `${lasting(at, now)} ago`

/** For how long something has been so. */
export function lasting(since: number, now = Date.now()): string {
  const seconds = Math.max(0, Math.round((now - since) / 1000))
  if (seconds < 60) return `${seconds} s`
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`
  if (seconds < 86_400) return `${Math.round(seconds / 3600)} h`
  return `${Math.round(seconds / 86_400)} d`
}
