// Runs inside a cell that has one stream of bytes to its keeper: starts processes there and joins their standard streams to it.
//   node inside.cjs --socket PATH | --device PATH | --command FILE
// The last becomes the command in the file, on the terminal that it was started on.
// It trusts the keeper, holds nothing, and imports nothing but Node's own modules. When the stream ends, it ends, and the cell's
// first process with it.
import { type ChildProcess, spawn } from 'node:child_process'
import { accessSync, chmodSync, constants as fileConstants, mkdirSync, readFileSync } from 'node:fs'
import { createConnection, createServer, type Socket } from 'node:net'
import { constants } from 'node:os'
import type { Duplex } from 'node:stream'
import { carryUntilExit } from '../until-exit.ts'
import { openDevice } from './device.ts'
import { BadFrame, connectionsMax, type Frame, kinds, lanes, protocolVersion } from './frames.ts'
import { multiplex } from './multiplex.ts'

const reportCharsMax = 30_000
/** Connections that are carried at a time, over all windows. Fewer than the host takes: there one counts until its socket is closed, too. */
const carriedMax = connectionsMax * 0.75
/** Connections to one window, with those that wait for their turn. A further one is closed. */
const relayedMax = 2000

type Running = { readonly signal: (name: NodeJS.Signals) => void }

const [how, path] = process.argv.slice(2)
if (path === undefined || !['--socket', '--device', '--command'].includes(how ?? '')) {
  console.error('usage: inside --socket PATH | --device PATH | --command FILE')
  process.exit(64)
}
if (how === '--command') become(JSON.parse(readFileSync(path, 'utf8')) as Command)
const transport: Duplex = how === '--socket' ? createConnection(path) : openDevice(path)

const running = new Map<number, Running>()
const connections = new Map<number, () => void>()
/** Connections that came when as many were carried as may be. */
const held: (() => void)[] = []
const parts = new Map<number, Buffer[]>()
let lastOpened = 0

const link = multiplex(transport, { hear, strays: 'ignore' })
// While the keeper is on its way to say hello. A machine is saved before that and furnished after it: its report comes when it is asked for.
const early = how === '--socket' ? report() : null
void link.closed.then((why) => {
  for (const { signal } of running.values()) signal('SIGKILL')
  console.error(`inside: ${why}`)
  process.exit(0)
})

function hear({ id, kind, payload }: Frame): void {
  switch (kind) {
    case kinds.hello:
      return greet(JSON.parse(payload.toString()) as Greeting)
    case kinds.part:
      return void parts.set(id, [...(parts.get(id) ?? []), payload])
    case kinds.start: {
      const whole = Buffer.concat([...(parts.get(id) ?? []), payload])
      parts.delete(id)
      return run(id, JSON.parse(whole.toString()) as Command)
    }
    case kinds.signal:
      return running.get(id)?.signal((JSON.parse(payload.toString()) as { signal: NodeJS.Signals }).signal)
    case kinds.reset:
      return connections.get(id)?.()
    default:
      throw new BadFrame(`kind ${kind} is not for this side`)
  }
}

type Greeting = {
  readonly version: number
  readonly relays: { readonly folder: string; readonly names: readonly string[] } | null
}
type Command = { readonly argv: [string, ...string[]]; readonly env: Record<string, string>; readonly cwd: string }

function greet({ version, relays }: Greeting): void {
  if (version !== protocolVersion) throw new BadFrame(`the keeper speaks version ${version}`)
  if (relays !== null) mkdirSync(relays.folder, { recursive: true })
  const standing = (relays?.names ?? []).map((name) => relay(name, `${relays!.folder}/${name}`))
  void Promise.all(standing).then(
    () => link.send(0, kinds.hello, JSON.stringify({ version: protocolVersion, report: early ?? report() })),
    (error: Error) => link.close(`a relay does not stand: ${error.message}`),
  )
}

/** As execvp does it: the first of the PATH that can be run. */
function become({ argv: [file, ...args], env, cwd }: Command): never {
  const folders = file.includes('/') ? [''] : (env.PATH ?? '').split(':').map((folder) => `${folder}/`)
  try {
    process.chdir(cwd)
  } catch (error) {
    console.error((error as Error).message)
    process.exit(126)
  }
  for (const folder of folders) {
    try {
      accessSync(`${folder}${file}`, fileConstants.X_OK)
    } catch {
      continue
    }
    process.execve!(`${folder}${file}`, [file, ...args], env)
  }
  console.error(`Cannot run "${file}": it is not there`)
  process.exit(127)
}

/** How this program is held, and so all that it starts. */
function report(): string {
  const seen = ['self/status', 'self/limits', 'version', 'self/mountinfo'].map((name) => {
    try {
      return readFileSync(`/proc/${name}`, 'utf8')
    } catch {
      return name === 'self/limits' ? ownLimits() : ''
    }
  })
  return seen.join('\n').slice(0, reportCharsMax)
}

/** As /proc/self/limits would tell them, for a kernel that has no such file. */
function ownLimits(): string {
  // Otherwise it looks up names, which takes long where there is no network.
  Object.assign(process.report, { excludeNetwork: true })
  const { userLimits } = process.report.getReport() as {
    userLimits: Record<string, { soft: string | number; hard: string | number }>
  }
  const line = (title: string, name: string) => `${title.padEnd(26)}${userLimits[name]?.soft} ${userLimits[name]?.hard}`
  return [
    line('Max open files', 'open_files'),
    line('Max file size', 'file_size_blocks'),
    line('Max processes', 'max_user_processes'),
  ].join('\n')
}

function run(id: number, { argv, env, cwd }: Command): void {
  const stdin = link.incoming(id, lanes.in)
  const [stdout, stderr] = [link.outgoing(id, lanes.out), link.outgoing(id, lanes.err)]
  const [file, ...args] = argv
  let hasExited = false
  const exit = (code: number) => {
    if (hasExited) return
    hasExited = true
    link.send(id, kinds.exit, JSON.stringify({ code }))
    stdin.destroy()
    running.delete(id)
    endIfDone()
  }
  const endIfDone = () => {
    if (!hasExited || !stdout.closed || !stderr.closed) return
    link.send(id, kinds.end)
    link.forget(id)
  }
  for (const lane of [stdout, stderr]) lane.once('close', endIfDone).on('error', () => {})
  const fail = (error: NodeJS.ErrnoException) => {
    stdout.end()
    stderr.end(`Cannot run "${file}": ${error.message}\n`)
    exit(error.code === 'ENOENT' ? 127 : 126)
  }
  try {
    // A group of its own, so that what it has started can be killed along with it.
    const child = spawn(file, args, { env, cwd, stdio: ['pipe', 'pipe', 'pipe'], detached: true })
    running.set(id, { signal: (name) => deliver(child, name) })
    child.once('error', fail)
    if (child.pid === undefined) return
    child.once('exit', (code, signal) => exit(code ?? 128 + constants.signals[signal ?? 'SIGKILL']))
    stdin.pipe(child.stdin)
    child.stdin.on('error', () => {})
    child.stdin.once('close', () => stdin.destroy())
    carryUntilExit(child, child.stdout, stdout)
    carryUntilExit(child, child.stderr, stderr)
  } catch (error) {
    fail(error as NodeJS.ErrnoException)
  }
}

function deliver(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined) return
  try {
    process.kill(signal === 'SIGKILL' ? -child.pid : child.pid, signal)
  } catch {
    // It has ended.
  }
}

/** Listens where the cell looks for a window, and carries every connection to the host. */
function relay(name: string, at: string): Promise<void> {
  function carry(socket: Socket): void {
    const id = (lastOpened += 2)
    link.send(id, kinds.open, JSON.stringify({ name }))
    const [from, to] = [link.incoming(id, lanes.in), link.outgoing(id, lanes.out)]
    const breakOff = () => {
      socket.destroy()
      from.destroy()
      to.destroy()
    }
    connections.set(id, breakOff)
    const endIfDone = () => {
      if (!socket.closed || !from.closed || !to.closed || !connections.delete(id)) return
      link.send(id, kinds.end)
      link.forget(id)
      held.shift()?.()
    }
    for (const each of [socket, from, to]) each.once('close', endIfDone)
    to.on('error', () => {})
    socket.once('error', () => {
      link.send(id, kinds.reset)
      breakOff()
    })
    socket.pipe(to)
    from.pipe(socket)
  }
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => {
    if (connections.size < carriedMax) return carry(socket)
    socket.on('error', () => {}) // it is told of when its turn comes
    held.push(() => carry(socket))
  })
  server.maxConnections = relayedMax
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(at, () => {
      // Any user of the cell's may use its windows.
      chmodSync(at, 0o666)
      resolve()
    })
  })
}
