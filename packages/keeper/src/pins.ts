import type { Meaning } from '@anchorhold/core/policy/meaning'
import { actionBounds, Pin } from '@anchorhold/protocol/actions'
import { Failure } from '@anchorhold/protocol/failures'
import { slownessOf } from '@anchorhold/protocol/rungs'
import { z } from 'zod'
import { cellEnvironment } from './cell-environment.ts'
import type { Cell } from './cells/cell.ts'
import { outputOf } from './cells/output-of.ts'
import { executed } from './executed.ts'

export type PinFiles = (cell: Cell, place: PinPlace, meaning: Meaning) => Promise<readonly Pin[]>
export type PinPlace = {
  readonly workspace: string
  readonly folder: string
  /** Where the agent's shell stands, inside the cell. */
  readonly shell: string
  readonly files: { readonly node: string }
  /** A folder of the home where the agent's shell writes down its variables, the newest file last; null where it does not. */
  readonly snapshots: string | null
  /** Toolchain folders of the agent's own path. */
  readonly path: readonly string[]
}

/** Hashes the files that a shell tool would execute, as the cell sees them: the program of each command, and the scripts that an
 *  interpreter is given.
 *  Does not stop: code in the cell that swaps a file after it was looked at; what a program loads or runs by itself. */
export const pinFiles: PinFiles = async (cell, { workspace, folder, shell, files, snapshots, path }, { commands }) => {
  const wanted = executed((commands ?? []).map(({ words }) => words))
  if (wanted.length === 0) return []
  if (wanted.length > wantedMax) throw tooMany()
  const home = cell.place(`${folder}/home`)
  const env = cellEnvironment({ home, path, env: {} })
  const process = cell.spawn([cell.place(files.node), '-e', hashThem], { env, cwd: cell.place(workspace) })
  process.stdin.end(JSON.stringify({ wanted, shell, snapshots, max: actionBounds.pins }))
  let pins: readonly Pin[]
  try {
    const { text } = await outputOf(process, { bytesMax: pinsBytesMax, withinMs: hashMsMax * slownessOf(cell.limits) })
    pins = z.array(Pin).parse(JSON.parse(text))
  } catch (cause) {
    throw new Failure('wrong_state', 'What it would run could not be read, so it cannot be asked for', { cause })
  }
  if (pins.length > actionBounds.pins) throw tooMany()
  return pins
}

const tooMany = () =>
  new Failure('too_large', `It would run more than ${actionBounds.pins} programs, which nobody could look through`)

/** So many files are looked for: a name may stand for several, in several folders. */
const wantedMax = 5000

/** How long it may take to hash what is to be run. */
const hashMsMax = 20_000
/** Each a path of Linux, at most 4096 bytes and longer in JSON, and a hash. */
const pinsBytesMax = (actionBounds.pins + 1) * 32 * 1024

/** Run by our own Node inside the cell. It waits for no fifo that the agent puts in a file's place. The path is the one that the agent's shell has: the last snapshot of it tells. */
const hashThem = String.raw`
const fs = require('node:fs'), p = require('node:path'), { createHash } = require('node:crypto');
const home = process.env.HOME;
const opened = (f) => {
  const fd = fs.openSync(f, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
  if (fs.fstatSync(fd).isFile()) return fd;
  throw new Error('no file');
};
function shellPath() {
  try {
    const dir = home + '/' + snapshots;
    const last = fs.readdirSync(dir).map((f) => [fs.statSync(dir + '/' + f).mtimeMs, f]).sort((a, b) => b[0] - a[0])[0][1];
    const line = fs.readFileSync(opened(dir + '/' + last), 'utf8').split('\n').filter((l) => /^export PATH=/.test(l)).at(-1);
    return line.slice('export PATH='.length).replace(/^(['"])(.*)\1$/, '$2').replace(/\\(.)/g, '$1').replaceAll('$PATH', process.env.PATH);
  } catch { return process.env.PATH }
}
const isFile = (f) => { try { return fs.statSync(f).isFile() } catch { return false } };
const out = new Map();
const { wanted, shell, snapshots, max } = JSON.parse(fs.readFileSync(0, 'utf8'));
const dirs = (snapshots === null ? process.env.PATH : shellPath()).split(':');
for (const { name, base, program } of wanted) {
  if (out.size > max) break;
  const from = p.resolve(shell, base.replace(/^~(?=\/|$)/, home));
  const at = name.includes('/') || !program ? p.resolve(from, name.replace(/^~(?=\/)/, home)) : dirs.map((d) => p.resolve(from, d, name)).find(isFile);
  if (at === undefined || out.has(at) || !isFile(at)) continue;
  const hash = createHash('sha256'), fd = opened(at), chunk = Buffer.alloc(1 << 20);
  for (let n; (n = fs.readSync(fd, chunk)) > 0; ) hash.update(chunk.subarray(0, n));
  fs.closeSync(fd);
  out.set(at, hash.digest('hex'));
}
process.stdout.write(JSON.stringify([...out].map(([path, sha256]) => ({ path, sha256 }))));
`
