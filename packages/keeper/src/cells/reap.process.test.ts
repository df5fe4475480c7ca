import { type ChildProcess, spawn } from 'node:child_process'
import {
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { identify, isGone, type ProcessId } from './limits/processes.ts'
import { reapCell, writeLease } from './reap.ts'

const isRoot = process.getuid?.() === 0
const somebody = { uid: 1_800_123_456, gid: 1_800_123_456 }
const base = mkdtempSync(join(tmpdir(), 'anchorhold-test-'))
const children: ChildProcess[] = []
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
  rmSync(base, { recursive: true, force: true })
})

function scratchOf(owner: typeof somebody | null = null): string {
  mkdirSync(join(base, 'cell'), { recursive: true })
  if (owner !== null) chownSync(join(base, 'cell'), owner.uid, owner.gid)
  return join(base, 'cell')
}
function running(as: typeof somebody | null = null): ProcessId {
  const child = spawn('sleep', ['1000'], { stdio: 'ignore', ...as })
  children.push(child)
  return identify(child.pid!)!
}

test('reapCell() ends the processes of a lease and what they started, and empties the folder', async () => {
  const scratch = scratchOf()
  const left = running()
  writeLease(scratch, { rung: 'container', processes: [left] })
  mkdirSync(join(scratch, 'engine/store'), { recursive: true })
  await reapCell(scratch)
  await reapCell(scratch)
  expect(isGone(left)).toBe(true)
  expect(readdirSync(scratch)).toEqual([])
})

test('reapCell() takes no process for one of the cell’s that only has its number', async () => {
  const scratch = scratchOf()
  const other = running()
  writeLease(scratch, { rung: 'container', processes: [{ pid: other.pid, startedAt: `${Number(other.startedAt) - 1}` }] })
  await reapCell(scratch)
  expect(isGone(other)).toBe(false)
})

test.skipIf(!isRoot)('reapCell() ends nothing of another user’s, whatever a lease says (needs root)', async () => {
  const scratch = scratchOf(somebody)
  const [theirs, ours] = [running(somebody), running()]
  writeLease(scratch, { rung: 'container', processes: [theirs, ours] })
  await reapCell(scratch)
  expect([isGone(theirs), isGone(ours)]).toEqual([true, false])
})

test.each([
  ['a link to one', (path: string, real: string) => symlinkSync(real, path)],
  ['one that is cut off', (path: string) => writeFileSync(path, '{"rung":"container","proc')],
  [
    'one that is too large',
    (path: string, real: string) => writeFileSync(path, readFileSync(real, 'utf8') + ' '.repeat(600_000)),
  ],
  ['a folder', (path: string) => mkdirSync(path)],
])('reapCell() believes no lease that is %s', async (_, put) => {
  const scratch = scratchOf()
  const other = running()
  const elsewhere = join(base, 'elsewhere')
  mkdirSync(elsewhere)
  writeLease(elsewhere, { rung: 'container', processes: [other] })
  put(join(scratch, 'cell.json'), join(elsewhere, 'cell.json'))
  await reapCell(scratch)
  expect(isGone(other)).toBe(false)
  expect(existsSync(join(elsewhere, 'cell.json'))).toBe(true)
  expect(readdirSync(scratch)).toEqual([])
})

test('reapCell() follows no link out of the folder, nor one in its place', async () => {
  const scratch = scratchOf()
  const outside = join(base, 'outside')
  mkdirSync(outside)
  writeFileSync(join(outside, 'kept'), '')
  symlinkSync(outside, join(scratch, 'way'))
  await reapCell(scratch)
  symlinkSync(outside, join(base, 'link'))
  await reapCell(join(base, 'link'))
  expect([readdirSync(scratch), readdirSync(outside)]).toEqual([[], ['kept']])
  expect(lstatSync(join(base, 'link')).isSymbolicLink()).toBe(true)
})
