import { spawn } from '@lydell/node-pty'
import xterm from '@xterm/headless'

/** A person at a real terminal: what they type, and what they see. */
export interface Person extends Disposable {
  type(keys: string): void
  resize(columns: number, rows: number): void
  /** The screen as it is now, without empty lines at its end. */
  screen(): string
  /** Resolves once the screen shows it. */
  sees(what: string | RegExp): Promise<string>
  readonly exited: Promise<number>
  readonly pid: number
}

export type PersonOptions = {
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
  readonly columns?: number
  readonly rows?: number
}

export function atTerminal(file: string, args: readonly string[], options: PersonOptions = {}): Person {
  const [cols, rows] = [options.columns ?? 100, options.rows ?? 30]
  const screen = new xterm.Terminal({ cols, rows, allowProposedApi: true })
  const pty = spawn(file, [...args], {
    name: 'xterm-256color',
    cols,
    rows,
    cwd: options.cwd ?? '/',
    env: { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '/', ...options.env },
  })
  const exited = Promise.withResolvers<number>()
  const watchers = new Set<() => void>()
  const look = () => {
    for (const watcher of watchers) watcher()
  }
  pty.onData((data) => screen.write(data, look))
  pty.onExit(({ exitCode, signal }) => {
    exited.resolve(signal === undefined || signal === 0 ? exitCode : 128 + signal)
    look()
  })
  let over = false
  void exited.promise.then(() => (over = true))
  const text = () => {
    const { active } = screen.buffer
    const lines = Array.from({ length: active.length }, (_, at) => active.getLine(at)?.translateToString(true) ?? '')
    return lines.join('\n').trimEnd()
  }
  return {
    type: (keys) => pty.write(keys),
    resize(columns, lines) {
      screen.resize(columns, lines)
      pty.resize(columns, lines)
    },
    screen: text,
    sees: (what) =>
      new Promise((resolve, reject) => {
        const fits = () => (typeof what === 'string' ? text().includes(what) : what.test(text()))
        const watcher = () => {
          if (!fits() && !over) return
          watchers.delete(watcher)
          if (fits()) resolve(text())
          else reject(new Error(`The program ended, and this was never seen: ${String(what)}\n${text()}`))
        }
        watchers.add(watcher)
        watcher()
      }),
    exited: exited.promise,
    pid: pty.pid,
    [Symbol.dispose]() {
      if (!over) pty.kill('SIGKILL')
      screen.dispose()
    },
  }
}
