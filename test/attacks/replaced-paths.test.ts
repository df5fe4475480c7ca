// Not one of the attacks that `anchorhold prove` carries out: it is root's daemon that is attacked, on paths in folders that belong to a
// session's user. Who is that user outside of the cell may put anything in the place of what lies there.
import { makeFolder, folders as foldersOf } from '@anchorhold/daemon/folders'
import { reapCells } from '@anchorhold/daemon/processes/reap'
import { nodeForAll } from '@anchorhold/daemon/processes/test-node'
import type { Runtime } from '@anchorhold/daemon/processes/runtime'
import { removeTree } from '@anchorhold/daemon/workspace/trees'
import { folderDisk } from '@anchorhold/link/disk'
import { isLocked } from '@anchorhold/link/lock'
import { readDeadOutbox } from '@anchorhold/link/outbox'
import { unixWire } from '@anchorhold/link/wire'
import type { SessionId } from '@anchorhold/protocol/ids'
import { execFileSync, spawn } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'

const isRoot = process.getuid?.() === 0
const user = { uid: 1_900_000_777, gid: 1_900_000_777 }
const other = { uid: 1_900_000_778, gid: 1_900_000_778 }
const session = 'ses_0000000000000001' as SessionId

let base = ''
let folders: ReturnType<typeof foldersOf>
let runtime: Runtime
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'ah-replaced-'))
  chmodSync(base, 0o755)
  folders = foldersOf(join(base, 'state'))
  mkdirSync(join(base, 'state/sessions'), { recursive: true, mode: 0o755 })
  // As it is built; a user of a session's may not be able to reach the clone.
  copyFileSync(join(import.meta.dirname, '../../dist/reap.mjs'), join(base, 'reap.mjs'))
  runtime = { node: nodeForAll(base), reap: join(base, 'reap.mjs') } as Runtime
  makeFolder(folders.session(session), 0o755, isRoot ? user : null)
})
afterEach(() => rmSync(base, { recursive: true, force: true }))

/** A folder that is somebody's, with a file in it. */
function folderOf(name: string, owner: { uid: number; gid: number } | null, mode = 0o755): string {
  const path = join(base, name)
  mkdirSync(path, { recursive: true })
  writeFileSync(join(path, 'kept'), 'canary')
  if (owner !== null) for (const each of [path, join(path, 'kept')]) chownSync(each, owner.uid, owner.gid)
  chmodSync(path, mode)
  return path
}

describe.runIf(isRoot)('a link in the place of the folder of a cell (needs root)', () => {
  test.each([
    ['root', null],
    ['another session', other],
  ])('does not make root start a reaper as the owner of a folder of %s', async (_, owner) => {
    const [victim, told] = [folderOf('victim', owner), join(base, 'told')]
    mkdirSync(told)
    chmodSync(told, 0o777)
    symlinkSync(victim, folders.cell(session))
    // From there on its user could lead it anywhere.
    const reap = join(base, 'telling.mjs')
    writeFileSync(reap, `(await import('node:fs')).writeFileSync(${JSON.stringify(told)} + '/' + process.getuid(), '')`)
    await reapCells({ ...runtime, reap }, [folders.cell(session)])
    expect([readdirSync(told), readdirSync(victim)]).toEqual([[], ['kept']])
  })

  test('has what was looked at cleared away, and not what has its name by then', async () => {
    const victim = folderOf('victim', user)
    const cell = folders.cell(session)
    makeFolder(cell, 0o700, user)
    writeFileSync(join(cell, 'left'), '')
    // The reaper begins, and the link is laid before its first look.
    const [slow, reap] = [join(base, 'slow.mjs'), join(base, 'reap.mjs')]
    writeFileSync(
      slow,
      `import { renameSync, symlinkSync } from 'node:fs'
      renameSync(${JSON.stringify(cell)}, ${JSON.stringify(`${cell}-was`)})
      symlinkSync(${JSON.stringify(victim)}, ${JSON.stringify(cell)})
      await import(${JSON.stringify(reap)})`,
    )
    await reapCells({ ...runtime, reap: slow }, [cell])
    expect([readdirSync(victim), readdirSync(`${cell}-was`)]).toEqual([['kept'], []])
  })

  test('a folder of another user in its place is left alone, and that is said', async () => {
    const cell = folders.cell(session)
    makeFolder(cell, 0o777, other)
    writeFileSync(join(cell, 'kept'), '')
    await expect(reapCells(runtime, [cell])).rejects.toThrow(`belongs to the user ${other.uid}`)
    expect(readdirSync(cell)).toEqual(['kept'])
  })

  test('the reaper itself does nothing as root', () => {
    const victim = folderOf('victim', null)
    const reap = () => execFileSync(process.execPath, [runtime.reap, victim], { cwd: victim, stdio: 'ignore' })
    expect(reap).toThrow('Command failed')
    expect(readdirSync(victim)).toEqual(['kept'])
  })
})

test.each([
  ['removeTree()', removeTree],
  // Node's own, where it is native. What goes by paths, as that without `Sync`, is led out.
  ['rmSync()', async (path: string) => rmSync(path, { recursive: true })],
])('a folder that is swapped for a link while %s removes it does not lead it out', async (_, remove) => {
  const [tree, victim, was] = ['tree', 'victim', 'was'].map((name) => join(base, name))
  const files = 3000
  for (const folder of [join(tree!, 'a'), victim!]) {
    mkdirSync(folder, { recursive: true })
    for (let at = 0; at < files; at++) writeFileSync(join(folder, `file-${at}`), '')
  }
  // As soon as the first of them is gone.
  const swap = `
    $| = 1; my ($tree, $was, $victim, $files) = @ARGV; opendir my $d, "$tree/a" or die; print "ready\\n";
    while (1) { rewinddir $d; my $n = 0; $n++ while readdir $d; last if $n < $files + 2 }
    rename "$tree/a", $was; symlink $victim, "$tree/a"`
  const child = spawn('perl', ['-e', swap, tree!, was!, victim!, String(files)], { stdio: ['ignore', 'pipe', 'inherit'] })
  await new Promise((resolve) => child.stdout.once('data', resolve))
  await remove(tree!).catch(() => {})
  child.kill('SIGKILL')
  expect(readdirSync(victim!)).toHaveLength(files)
})

test.runIf(isRoot)('a link in the place of a folder that root makes for a user is refused (needs root)', () => {
  const victim = folderOf('victim', null, 0o700)
  symlinkSync(victim, folders.home(session))
  expect(() => makeFolder(folders.home(session), 0o777, user)).toThrow()
  const { uid, mode } = statSync(victim)
  expect([uid, mode & 0o777]).toEqual([0, 0o700])
})

describe('what a dead keeper has left', () => {
  const record = { n: 1, session, at: 1, after: null, type: 'notice', body: { level: 'info', code: 'test', message: 'canary' } }

  test('is not read through a link to the outbox of another session', async () => {
    const theirs = join(base, 'theirs')
    const disk = folderDisk(theirs)
    disk.use('0000000000000001.log')
    disk.write(Buffer.from(JSON.stringify(record)))
    await disk.close()
    symlinkSync(theirs, folders.outbox(session))
    await expect(readDeadOutbox(folderDisk(folders.outbox(session)), 0)).rejects.toMatchObject({ code: 'ENOTDIR' })
  })

  test('is synced without waiting for who may read from a fifo in its place', async () => {
    const outbox = folders.outbox(session)
    mkdirSync(outbox)
    execFileSync('mkfifo', [join(outbox, '0000000000000001.log')])
    await expect(folderDisk(outbox).syncLeft('0000000000000001.log')).rejects.toThrow('it is no file')
  })
})

describe('the lock of a keeper', () => {
  test('is looked at without believing what lies beside it', () => {
    const lock = folders.keeperLock(session)
    // A journal as a process leaves it that dies in the middle of a change: SQLite plays it back, and removes it.
    const db = new DatabaseSync(lock)
    db.exec('pragma journal_mode = delete; create table one (x); pragma cache_size = 1; begin immediate')
    for (let at = 0; at < 2000; at++) db.exec(`insert into one values (randomblob(1000))`)
    for (const end of ['', '-journal']) copyFileSync(`${lock}${end}`, `${lock}-copy${end}`)
    db.close()
    for (const end of ['', '-journal']) renameSync(`${lock}-copy${end}`, `${lock}${end}`)
    const before = lstatSync(lock)
    expect(isLocked(lock)).toBe(false)
    expect(existsSync(`${lock}-journal`)).toBe(true)
    expect(lstatSync(lock).mtimeMs).toBe(before.mtimeMs)
  })

  test('is none where a link leads to one that is held', async () => {
    const held = join(base, 'held')
    const db = new DatabaseSync(held)
    db.exec('begin immediate')
    symlinkSync(held, folders.keeperLock(session))
    expect([isLocked(held), isLocked(folders.keeperLock(session))]).toEqual([true, false])
    db.close()
    expect(isLocked(held)).toBe(false)
  })
})

test('the socket that was looked at is entered, and not what has its name by then', async () => {
  const heard: string[] = []
  const servers = ['keeper', 'victim'].map((name) => createServer(() => void heard.push(name)).listen(join(base, name)))
  const path = folders.keeperSocket(session)
  renameSync(join(base, 'keeper'), path)
  const connecting = unixWire.connect(path, { frame() {}, closed() {} })
  // The descriptor is open by the time that this is done, or the link is refused.
  renameSync(path, `${path}-was`)
  symlinkSync(join(base, 'victim'), path)
  const connection = await connecting.catch(() => null)
  connection?.close()
  for (const server of servers) await new Promise((resolve) => server.close(resolve))
  expect(heard).not.toContain('victim')
})
