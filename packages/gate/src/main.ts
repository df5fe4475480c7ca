// The gate's process: serves every cell's windows, and alone holds secrets.
//   node gate.mjs FOLDER [--lifeline]
import { rehearsalFolder, rehearsalSocket } from '@anchorhold/core/places'
import { keepCompiledSoon } from '@anchorhold/link/keep-compiled'
import { folderDisk } from '@anchorhold/link/disk'
import { takeLock } from '@anchorhold/link/lock'
import { openOutbox } from '@anchorhold/link/outbox'
import { listenAsSource } from '@anchorhold/link/source'
import { sayReady, sayWhyNot } from '@anchorhold/link/stands'
import { Failure } from '@anchorhold/protocol/failures'
import { GateCommand } from '@anchorhold/protocol/gate-commands'
import { resolve } from 'node:path'
import { gate } from './gate.ts'
import type { CallLine } from './windows/call-line.ts'

/** As sysexits(3) has them. */
const exits = { usage: 64, disk: 74, taken: 75 } as const
/** How long calls may go on that were under way when the disk failed. */
const lastCallsMs = 60_000
/** Records that the daemon has no use for before a turn's end, and lines of the log, go out together. Where there are many, they wait longer,
 *  so that reading them does not keep others from a core. */
const gatherMs = 50
const manyRecords = 20
const manyMs = 250

const [folder] = process.argv.slice(2)
if (folder === undefined) {
  console.error('usage: gate FOLDER')
  process.exit(exits.usage)
}
/** Serves a single cell, without a daemon. */
const isAlone = process.argv.includes('--lifeline')
// What this process makes is for itself alone, unless it says otherwise.
process.umask(0o077)
const lock = takeLock(`${folder}/gate.lock`)
if (lock === null) process.exit(exits.taken)

let lines: CallLine[] = []
function writeLog(): void {
  if (lines.length > 0) console.log(lines.map((line) => JSON.stringify(line)).join('\n'))
  lines = []
}
process.on('exit', writeLog)

let tell = () => {}
const outbox = await openOutbox({ disk: folderDisk(`${folder}/outbox`), now: Date.now })
let gatheredTo = outbox.last
const one = await gate({
  folder,
  rehearsalSocket: rehearsalSocket(rehearsalFolder(resolve(folder))),
  alone: isAlone,
  env: { ...process.env },
  outbox,
  log(line) {
    if (lines.push(line) === 1) setTimeout(writeLog, manyMs)
  },
  tell: () => tell(),
  say: (message) => console.log(message),
  onBroken(error) {
    console.error(`Cannot write to "${folder}/outbox", so no model call is made: ${error.message}`)
    // The gate that is started in its place can write again as soon as the disk can.
    setImmediate(leaveToNext)
  },
}).catch((error: unknown) => {
  console.error(error instanceof Error ? (error.stack ?? error.message) : String(error))
  if (error instanceof Failure) sayWhyNot(error)
  process.exit(exits.disk)
})
// Its secrets are not for those that it might start.
for (const name of Object.keys(process.env)) delete process.env[name]

const source = await listenAsSource({
  socketPath: `${folder}/link.sock`,
  source: 'gate',
  outbox,
  gather(send) {
    const sinceLast = outbox.last - gatheredTo
    gatheredTo = outbox.last
    setTimeout(send, sinceLast > manyRecords ? manyMs : gatherMs)
  },
  async handle(raw) {
    const command = GateCommand.parse(raw)
    if (command.do !== 'leave') return one.handle(command)
    setImmediate(() => void leave())
    return null
  },
})
tell = source.tell
sayReady()
keepCompiledSoon()
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => void leave())
// One that serves a single cell goes with whoever started it.
if (isAlone) process.stdin.resume().once('end', () => void leave())

async function leaveToNext(): Promise<void> {
  await one.quiet(lastCallsMs)
  process.exit(exits.disk)
}

async function leave(): Promise<void> {
  await one.close()
  await source[Symbol.asyncDispose]()
  await outbox.close()
  lock?.release()
  process.exit(0)
}
