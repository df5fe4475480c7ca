import type { Clock } from '@anchorhold/link/clock'
import { Failure } from '@anchorhold/protocol/failures'
import type { RandomBytes } from '@anchorhold/protocol/ids'
import { type ShellOutput, terminalBytesMax, terminalKeptBytes, type TerminalSize } from '@anchorhold/protocol/terminal'
import type { CellProcess } from '../cells/cell.ts'
import { shellInside } from './shell-inside.ts'

/** Shells that people have in a cell. Each stays for a while after nobody looks at it any more, and ends with the cell. */
export interface Shells {
  readonly count: number
  /** `start` runs a command in the cell. */
  open(size: TerminalSize, start: (node: readonly string[]) => CellProcess, opener: string): string
  write(shell: string, typed: Buffer): void
  /** For this person, if one is named: a shell of somebody else's is none. */
  resize(shell: string, size: TerminalSize, actor?: string): void
  /** What it showed after so many bytes; waits a while for something to be there. */
  read(shell: string, after: number): Promise<ShellOutput>
  close(shell: string, why: string): void
  closeAll(why: string): void
}

export type ShellsOptions = {
  readonly clock: Clock
  readonly random: RandomBytes
  /** Told once of each that was opened. */
  readonly onClosed: (shell: string, why: string) => void
}

const shellsMax = 8
/** How long a shell stays that nobody looks at. */
const keptMs = 10 * 60_000
/** How long a read waits for something to be said. */
const readMs = 20_000
/** Who has read so recently is about to read again. */
const attendedMs = 10_000
/** How long what a shell said last can still be read. */
const afterglowMs = 60_000

const drainMs = 1000

type Shell = {
  readonly process: CellProcess
  readonly opener: string
  /** The newest of its output, and how many bytes came before. */
  kept: Buffer[]
  keptBytes: number
  from: number
  /** How far somebody has read. */
  seen: number
  readAt: number
  waiting: Set<() => void>
  ended: string | null
  forget: () => void
}

export function shells({ clock, random, onClosed }: ShellsOptions): Shells {
  const all = new Map<string, Shell>()
  const live = () => [...all.values()].filter(({ ended }) => ended === null)

  function find(id: string, actor?: string): Shell {
    const shell = all.get(id)
    if (shell === undefined || (actor !== undefined && actor !== shell.opener))
      throw new Failure('not_found', `There is no terminal "${id}": it has ended`, { hint: 'Open another one' })
    return shell
  }
  const endOf = ({ from, keptBytes }: Shell) => from + keptBytes
  const isAttended = ({ waiting, readAt }: Shell) => waiting.size > 0 || clock.elapsed() - readAt < attendedMs

  function said(shell: Shell, chunk: Buffer): void {
    shell.kept.push(chunk)
    shell.keptBytes += chunk.length
    // Whoever looks on is waited for; where nobody does, the newest is kept and the shell goes on.
    if (endOf(shell) - shell.seen > terminalKeptBytes && isAttended(shell)) shell.process.stdout.pause()
    while (shell.keptBytes > 2 * terminalKeptBytes) {
      const first = shell.kept.shift()!
      shell.keptBytes -= first.length
      shell.from += first.length
    }
    wake(shell)
  }
  function wake(shell: Shell): void {
    for (const tell of shell.waiting) tell()
  }
  function over(id: string, shell: Shell, why: string): void {
    if (shell.ended !== null) return
    shell.ended = why
    shell.forget()
    shell.forget = clock.after(afterglowMs, () => all.delete(id))
    onClosed(id, why)
    wake(shell)
  }
  /** Begins to count anew how long nobody has looked. */
  function keep(id: string, shell: Shell): void {
    shell.forget()
    if (shell.ended === null)
      shell.forget = clock.after(keptMs, () => (shell.waiting.size > 0 ? keep(id, shell) : close(id, 'Nobody came back to it')))
  }
  function close(id: string, why: string): void {
    const shell = find(id)
    shell.process.kill('SIGKILL')
    over(id, shell, why)
  }

  return {
    get count() {
      return live().length
    },
    open(size, start, opener) {
      if (live().length >= shellsMax)
        throw new Failure('too_many', `There are ${shellsMax} terminals already`, { hint: 'Close one' })
      const id = `sh_${Buffer.from(random(8)).toString('hex')}`
      const process = start(['-e', `(${shellInside.toString()})()`, String(size.cols), String(size.rows)])
      const shell: Shell = {
        process,
        opener,
        ...{ kept: [], keptBytes: 0, from: 0, seen: 0, readAt: clock.elapsed(), waiting: new Set(), ended: null },
        forget: () => {},
      }
      all.set(id, shell)
      process.stderr.resume()
      process.stdin.on('error', () => {})
      process.stdout.on('data', (chunk: Buffer) => said(shell, chunk))
      const drained = Promise.withResolvers<void>()
      process.stdout.once('close', drained.resolve)
      void process.exited.then(async (code) => {
        // What it said last comes first; nobody waits long for a pipe that something else holds open.
        const late = clock.after(drainMs, drained.resolve)
        await drained.promise
        late()
        over(id, shell, `The shell ended with ${code}`)
      })
      keep(id, shell)
      return id
    },
    write(id, typed) {
      find(id).process.stdin.write(`${JSON.stringify({ typed: typed.toString('base64') })}\n`)
    },
    resize(id, { cols, rows }, actor) {
      find(id, actor).process.stdin.write(`${JSON.stringify({ cols, rows })}\n`)
    },
    async read(id, after) {
      const shell = find(id)
      keep(id, shell)
      shell.seen = Math.max(shell.seen, Math.min(after, endOf(shell)))
      shell.process.stdout.resume()
      if (after >= endOf(shell) && shell.ended === null) {
        const { promise, resolve } = Promise.withResolvers<void>()
        const late = clock.after(readMs, resolve)
        shell.waiting.add(resolve)
        await promise
        shell.waiting.delete(resolve)
        late()
      }
      shell.readAt = clock.elapsed()
      const from = Math.max(shell.from, Math.min(after, endOf(shell)))
      const bytes = Buffer.concat(shell.kept).subarray(from - shell.from, from - shell.from + terminalBytesMax)
      const ended = from + bytes.length >= endOf(shell) ? shell.ended : null
      return { from, base64: bytes.toString('base64'), ended }
    },
    close,
    closeAll(why) {
      for (const [id, shell] of all) if (shell.ended === null) close(id, why)
    },
  }
}
