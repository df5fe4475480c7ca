import { ownerMark } from '@anchorhold/link/owner'
import { execFile } from 'node:child_process'
import { chmodSync, createWriteStream, mkdirSync, renameSync, rmSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { z } from 'zod'
import type { Cell, CellDriver, CellProcess, CellSpec } from '../cell.ts'
import { type MachineShape, overheadBytes, qemuArgv, restoresFrom, seen, sockets } from './argv.ts'
import { syncLines } from './guest.ts'
import { type Monitor, monitor } from './monitor.ts'

/** A running QEMU behind its wall, with the program inside waiting to be greeted. */
export interface Machine extends AsyncDisposable {
  /** The cell that QEMU itself runs in. */
  readonly wall: Cell
  /** The line to the program inside. */
  readonly channel: Duplex
  /** Has the guest's first program do something; throws unless it answers `yes`. */
  tell(lines: readonly string[], signal: AbortSignal): Promise<void>
  /** Has the guest write out what it only holds in memory of the shared folders: pages that a process has mapped and changed. It may
   *  hang or be gone, so nobody waits long for it. */
  sync(): Promise<void>
  /** Stops it for good and writes its memory to `file`. */
  save(file: string, signal: AbortSignal): Promise<void>
  /** Settles with the reason when QEMU or its wall is gone. */
  readonly ended: Promise<string>
}

export type MachineParts = {
  readonly kernel: string
  readonly initramfs: string
  readonly root: string
  readonly runtime: string
  /** Null to boot. */
  readonly snapshot: string | null
}

export type MachineOptions = {
  readonly wall: CellDriver
  readonly spec: CellSpec
  readonly qemu: string
  readonly shape: MachineShape
  readonly parts: MachineParts
  /** The device by which the hardware runs machines, on the host. */
  readonly kvm: string
}

const answerCharsMax = 4_000
const consoleCharsMax = 4_000
const lookEveryMs = 5
/** How long a wall that a limit has ended may take to say so. */
const wallSaysMs = 500
const lastWordsMs = 2 * wallSaysMs

export async function startMachine(options: MachineOptions, signal: AbortSignal): Promise<Machine> {
  const { spec, qemu, shape, parts } = options
  mkdirSync(spec.scratch, { recursive: true })
  await using lines = await listen(spec.scratch, [sockets.channel, sockets.control, sockets.monitor])
  const wall = await options.wall.start(wallSpec(options), signal)
  try {
    const from = parts.snapshot === null ? 'boot' : restoresFrom((await promisify(execFile)(qemu, ['--version'])).stdout)
    const whole: [string, ...string[]] = [qemu, ...qemuArgv(shape, from)]
    const command: typeof whole =
      from === 'descriptor' ? ['/bin/sh', '-c', 'exec 3<"$0"; exec "$@"', seen.snapshot, ...whole] : whole
    const process = wall.spawn(command, { env: { PATH: '/usr/bin:/bin' }, cwd: '/' })
    process.stdin.end()
    const said = lastWords(process)
    // When a limit ends the wall, QEMU is gone a moment before the wall has said why.
    const gone = process.exited.then(async (code) => {
      await delay(wallSaysMs, null, { ref: false })
      return `QEMU ended with ${code}${said()}`
    })
    const ended = Promise.race([gone, wall.ended])
    // A machine that hangs never says so: every wait is over when QEMU is, or the signal.
    const inTime = <T>(what: Promise<T>): Promise<T> => {
      const late = Promise.withResolvers<never>()
      const abort = () => late.reject(signal.reason)
      signal.addEventListener('abort', abort)
      if (signal.aborted) abort()
      const over = ended.then((why) => Promise.reject(new Error(why)))
      over.catch(() => {})
      // Of a QEMU that ends, its last words say more than a line that closes.
      const orWhy = what.catch(async (error: unknown) => {
        const why = await Promise.race([ended, delay(lastWordsMs, null, { ref: false })])
        throw why === null ? error : new Error(why)
      })
      return Promise.race([orWhy, late.promise, over]).finally(() => signal.removeEventListener('abort', abort))
    }
    const control = await inTime(lines.accepted(sockets.control))
    const channel = await inTime(lines.accepted(sockets.channel))
    const qmp = await inTime(lines.accepted(sockets.monitor).then(monitor))
    if (parts.snapshot === null) await inTime(qmp.event('VSERPORT_CHANGE', isChannelOpen))
    else await inTime(restored(qmp))
    const guest = teller(control)
    return {
      wall,
      channel,
      ended,
      tell: (commands, until) => guest(commands, AbortSignal.any([signal, until])),
      sync: () => Promise.race([guest(syncLines, AbortSignal.timeout(syncMs)), ended]).then(ignore, ignore),
      save: (file, until) => save(qmp, spec.scratch, file, until),
      [Symbol.asyncDispose]: () => wall[Symbol.asyncDispose](),
    }
  } catch (error) {
    await wall[Symbol.asyncDispose]()
    throw error
  }
}

/** For what a session maps, under software emulation and on a busy machine. */
const syncMs = 10_000
const ignore = () => {}

/** QEMU's own cell: its files, the session's folders with what is covered in them, the sockets, and nothing else of the session. */
function wallSpec({ spec, parts, shape, kvm }: MachineOptions): CellSpec {
  const { limits } = spec
  return {
    ...spec,
    name: `${spec.name}, the wall of its machine`,
    root: null,
    windows: null,
    network: 'none',
    devices: shape.accel === 'kvm' ? [{ source: kvm, target: '/dev/kvm' }] : [],
    mounts: [
      ...Object.entries({ kernel: parts.kernel, initramfs: parts.initramfs, root: parts.root, runtime: parts.runtime }).map(
        ([name, source]) => ({ source, target: seen[name as 'kernel'] }),
      ),
      ...(parts.snapshot === null ? [] : [{ source: parts.snapshot, target: seen.snapshot }]),
      { source: spec.scratch, target: seen.sockets },
      // The folder that is shared must be there even where a session mounts nothing; the guest has this file already.
      { source: parts.kernel, target: `${seen.mounts}/kernel` },
      ...spec.mounts.map(({ source }, index) => ({ source, target: `${seen.mounts}/${index}` })),
    ],
    limits: {
      ...limits,
      memoryBytes: limits.memoryBytes + overheadBytes,
      processesMax: qemuThreadsMax,
      openFilesMax: Math.max(limits.openFilesMax, qemuFilesMin),
      tmpBytes: qemuTmpBytes,
    },
  }
}

/** A thread a processor, and a pool for files. */
const qemuThreadsMax = 256
/** Each open file of the guest's is one of QEMU's, up to half of these; then it closes and opens again. */
const qemuFilesMin = 4096
const qemuTmpBytes = 2 ** 20

const isChannelOpen = (data: unknown) => z.object({ id: z.literal('channel'), open: z.literal(true) }).safeParse(data).success

async function restored(qmp: Monitor): Promise<void> {
  const Status = z.object({ status: z.string() })
  for (;;) {
    const { status } = Status.parse(await qmp.execute('query-status'))
    if (status === 'paused') break
    if (status !== 'inmigrate') throw new Error(`the saved machine could not be restored: it is ${status}`)
    await delay(lookEveryMs)
  }
  await qmp.execute('cont')
}

async function save(qmp: Monitor, scratch: string, file: string, signal: AbortSignal): Promise<void> {
  await qmp.execute('stop')
  await using lines = await listen(scratch, [sockets.save])
  const part = `${file}-${ownerMark()}.part`
  const written = lines.accepted(sockets.save).then((from) => pipeline(from, createWriteStream(part), { signal }))
  written.catch(() => {})
  await qmp.execute('migrate-set-parameters', { 'max-bandwidth': 2 ** 40 })
  await qmp.execute('migrate', { uri: `unix:${seen.sockets}/${sockets.save}` })
  const Progress = z.object({ status: z.string() })
  for (;;) {
    signal.throwIfAborted()
    const { status } = Progress.parse(await qmp.execute('query-migrate'))
    if (status === 'completed') break
    if (status === 'failed' || status === 'cancelled') throw new Error('QEMU could not save the machine')
    await delay(lookEveryMs)
  }
  await written
  chmodSync(part, 0o644)
  renameSync(part, file)
}

/** One conversation at a time: commands, and a line in answer. */
function teller(control: Duplex) {
  let rest = ''
  let heard: (line: string) => void = () => {}
  control.setEncoding('utf8')
  control.on('error', () => {})
  control.on('data', (text: string) => {
    // Nobody but the guest's first program can write here, which says a word at a time; a guest that was taken over may say anything.
    rest = (rest + text).slice(-answerCharsMax)
    const end = rest.indexOf('\n')
    if (end === -1) return
    heard(rest.slice(0, end))
    rest = ''
  })
  return async (lines: readonly string[], signal: AbortSignal): Promise<void> => {
    const answer = Promise.withResolvers<string>()
    heard = answer.resolve
    const abort = () => answer.reject(signal.reason)
    signal.addEventListener('abort', abort)
    control.write(`${lines.join('\n')}\n`)
    try {
      const said = await answer.promise
      if (said !== 'yes') throw new Error(`the machine could not be set up (${said.slice(0, 200)})`)
    } finally {
      signal.removeEventListener('abort', abort)
    }
  }
}

/** The end of what QEMU and the guest's console said. */
function lastWords({ stdout, stderr }: CellProcess): () => string {
  let said = ''
  for (const stream of [stdout, stderr]) {
    stream.setEncoding('utf8')
    stream.on('data', (text: string) => (said = (said + text).slice(-consoleCharsMax)))
  }
  return () => (said.trim() === '' ? '' : `: ${said.trim().split('\n').slice(-3).join('; ')}`)
}

interface Listeners extends AsyncDisposable {
  /** The one connection that comes to a socket of this name. */
  accepted(name: string): Promise<Socket>
}

/** Sockets for one connection each. */
async function listen(folder: string, names: readonly string[]): Promise<Listeners> {
  const made = await Promise.all(
    names.map(async (name) => {
      const path = join(folder, name)
      rmSync(path, { force: true })
      const first = Promise.withResolvers<Socket>()
      const server = createServer((socket) => {
        first.resolve(socket)
        server.close()
      })
      server.maxConnections = 1
      await new Promise<void>((resolve, reject) => server.once('error', reject).listen(path, resolve))
      // The folder is closed to everybody but the cell's user, who may not be this one.
      chmodSync(path, 0o666)
      return { name, path, server, first: first.promise }
    }),
  )
  return {
    accepted: (name) => made.find((each) => each.name === name)!.first,
    async [Symbol.asyncDispose]() {
      for (const { path, server } of made) {
        server.close()
        rmSync(path, { force: true })
      }
    },
  }
}
