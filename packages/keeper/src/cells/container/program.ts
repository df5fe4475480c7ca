import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { lchownSync, lstatSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import type { Failure } from '@anchorhold/protocol/failures'
import type { CellSpec, Lack, SpawnOptions } from '../cell.ts'
import { insideChannel } from '../inside/channel.ts'
import type { SeenInside } from '../limits/limits.ts'
import { scratchPlaces } from './engine.ts'
import { own } from './root.ts'

// The program inside a container, which carries bytes between the keeper and what it starts there, whatever engine made it.

/** It carries bytes: a small heap and no helping threads are enough, and a start counts. */
const node = [
  own.node,
  ...['--disable-warning=ExperimentalWarning', '--max-semi-space-size=1', '--max-old-space-size=128', '--v8-pool-size=0'],
  own.program,
]

/** What a container runs. */
export const programCommand = [own.init, '--', ...node, '--socket', `${own.channel}/keeper`] as const

/** Waits where the program inside will come to, in the folder that the container sees as its channel. */
export async function expectProgram(spec: CellSpec, channelFolder: string) {
  const path = join(channelFolder, 'keeper')
  const server = createServer()
  server.listen(path)
  await once(server, 'listening')
  giveTo(spec, path)
  const came = once(server, 'connection').then(([socket]) => {
    // It has come before anything of the agent's was there; nobody else shall.
    server.close()
    return insideChannel(socket as Socket)
  })
  came.catch(() => {})
  return { came, close: () => void server.close() }
}

/** What becomes a command of the cell's on a terminal. By way of a file, because an argument list can be read by everyone. */
export function terminalProgram(spec: CellSpec, channelFolder: string, argv: readonly string[], options: SpawnOptions) {
  const name = `command-${randomUUID()}`
  const file = join(channelFolder, name)
  writeFileSync(file, JSON.stringify({ argv, ...options }), { mode: 0o600 })
  giveTo(spec, file)
  return {
    name,
    argv: [...node, '--command', `${own.channel}/${name}`],
    // Already gone when the cell has ended.
    remove: () => rmSync(file, { force: true }),
  }
}

/** What the program reports of itself. Throws unless it is held as it should be. */
export function checkHeld(
  report: string,
  posture: readonly RegExp[],
  { limits }: Pick<CellSpec, 'limits'>,
  unavailable: (lacks: readonly Lack[]) => Failure,
): SeenInside {
  const wrong = posture.filter((line) => !line.test(report))
  if (wrong.length > 0) {
    const what = `a process inside was not held as it should be (${wrong.map(String).join(', ')})`
    throw unavailable([{ what, remedy: 'Update the engine and the kernel' }])
  }
  const sizes = scratchPlaces.map((path) => {
    const mount = report.split('\n').find((line) => line.split(' ')[4] === path)
    const [, figure, unit] = /[ ,]size=(\d+)(k?)/.exec(mount ?? '') ?? []
    return figure === undefined ? Infinity : Number(figure) * (unit === 'k' ? 1024 : 1)
  })
  const tmpBytes = Math.max(...sizes)
  if (tmpBytes > limits.tmpBytes)
    throw unavailable([{ what: 'the size of /tmp could not be limited', remedy: 'Update the engine' }])
  return { limits: report, tmpBytes }
}

/** What the caller has made as root, with its own umask, belongs to the session's user. */
export function giveTo(spec: CellSpec, path: string): void {
  if (spec.runAs === null || process.getuid?.() !== 0) return
  lchownSync(path, spec.runAs.uid, spec.runAs.gid)
  if (lstatSync(path).isDirectory()) for (const name of readdirSync(path)) giveTo(spec, join(path, name))
}

/** Who the session's user is outside. */
export const ownerOf = ({ runAs }: CellSpec) => runAs ?? { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }
