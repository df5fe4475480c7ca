/** Runs inside the cell, by our own Node: a shell on a terminal of its own, made by script(1), whose other end is this program's standard
 *  output. Its standard input is lines of JSON: what is typed, or a new size. It stands beside the shell in the same namespaces, since a
 *  terminal can be resized from nowhere else. Its source is what is run there, so it uses nothing from around it. */
export function shellInside(): void {
  const { spawn } = process.getBuiltinModule('node:child_process')
  const { createInterface } = process.getBuiltinModule('node:readline')
  const [, cols = '80', rows = '24'] = process.argv
  const begin = [
    `stty sane rows ${Number(rows)} cols ${Number(cols)}`,
    'tty >&3',
    'exec 3>&-',
    'if [ -x /bin/bash ]; then SHELL=/bin/bash exec /bin/bash -i; else exec /bin/sh -i; fi',
  ].join('; ')
  // A shell reads its terminal's size before each prompt and writes back what it read: a new one that comes between the two is lost.
  const setSize =
    'for n in 1 2 3; do stty -F "$1" rows "$2" cols "$3"; sleep 0.2; test "$(stty -F "$1" size)" != "$2 $3" || break; done'
  const child = spawn('script', ['--quiet', '--return', '--command', begin, '/dev/null'], {
    stdio: ['pipe', 'inherit', 'inherit', 'pipe'],
    env: { ...process.env, SHELL: '/bin/sh' },
  })
  let terminal = ''
  // Its end says nothing: script(1) holds it open for as long as it lives.
  child.stdio[3]?.on('data', (said: Buffer) => {
    terminal += said.toString()
    resize()
  })
  child.stdin!.on('error', () => {})
  child.once('error', () => {
    process.stdout.write('There is no script(1) in this cell, which makes terminals\r\n', () => process.exit(127))
  })
  child.once('exit', (code) => process.exit(code ?? 129))
  let wanted: readonly [rows: string, cols: string] | null = null
  let resizing = false
  /** One at a time: of two, the older size could be set last. */
  function resize(): void {
    // It may not have said yet which terminal it is.
    if (resizing || wanted === null || !terminal.includes('\n')) return
    const [toRows, toCols] = wanted
    wanted = null
    resizing = true
    const over = () => {
      resizing = false
      resize()
    }
    spawn('sh', ['-c', setSize, 'resize', terminal.trim(), toRows, toCols], { stdio: 'ignore' })
      .once('error', over)
      .once('exit', over)
  }
  const lines = createInterface({ input: process.stdin })
  lines.on('line', (line) => {
    const said = JSON.parse(line) as { readonly typed: string } | { readonly cols: number; readonly rows: number }
    if ('typed' in said) return void child.stdin!.write(Buffer.from(said.typed, 'base64'))
    wanted = [String(said.rows), String(said.cols)]
    resize()
  })
  // Whoever had it is gone. With script(1) goes its end of the terminal, and the kernel hangs up on all that is on the other.
  lines.once('close', () => {
    child.kill('SIGKILL')
    process.exit(129)
  })
}
