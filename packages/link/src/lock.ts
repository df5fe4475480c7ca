import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
} from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { type Clock, pause } from './clock.ts'
import { O_PATH } from './found-file.ts'
import { isBeingEnded } from './owner.ts'

export interface Lock {
  release(): void
}

/** Takes a kernel lock on a file, or returns null when another process holds it. The kernel frees it when this
 *  process ends, however it ends; so no stale lock can be left behind, as a pid file could. */
export function takeLock(path: string): Lock | null {
  return lockIn(new DatabaseSync(path, { timeout: 0 }))
}

/** The same on a file that is there, and null where none is: whoever makes one anew that its holder is just taking away has a lock beside
 *  the holder's. */
export function takeLockThere(path: string): Lock | null {
  const url = pathToFileURL(path)
  url.searchParams.set('mode', 'rw')
  try {
    const lock = lockIn(new DatabaseSync(url, { timeout: 0 }))
    if (lock === null || existsSync(path)) return lock
    lock.release()
  } catch (error) {
    if (existsSync(path)) throw error
  }
  return null
}

function lockIn(db: DatabaseSync): Lock | null {
  // SQLite holds an fcntl lock on the file for as long as a transaction that will write is open; Node has no flock of its own. Not an
  // exclusive one: that is taken in steps, and of two that try at once each may find the other on its way, and both give up.
  try {
    db.exec('pragma journal_mode = memory; begin immediate')
  } catch (error) {
    db.close()
    if (error instanceof Error && /locked|busy/i.test(error.message)) return null
    throw error
  }
  return {
    release() {
      if (db.isOpen) db.close()
    },
  }
}

/** The same, after the end of a process that holds it and was killed: in the middle of a write to a slow disk, it keeps all that it had until
 *  that is done. Null at once where one holds it that lives. */
export async function takeLockOfKilled(path: string, clock: Clock, isEnding = isBeingEnded): Promise<Lock | null> {
  for (const end = clock.elapsed() + endingMs; ; await pause(clock, lookMs)) {
    const lock = takeLock(path)
    if (lock !== null || !tellsLockHolders() || clock.elapsed() >= end) return lock
    const holder = lockHolder(path)
    // One whose files are being closed is found no more, and has not let go yet.
    if (holder !== null && !isEnding(holder)) return null
  }
}
const endingMs = 5000
const lookMs = 10

/** Whether nobody holds it just now. The file is there afterwards. */
export function isUnlocked(path: string): boolean {
  const lock = takeLock(path)
  lock?.release()
  return lock !== null
}

/** Whether the kernel tells who holds a lock. Linux does. */
export const tellsLockHolders = (): boolean => existsSync('/proc/locks')

/** The process that holds the lock, as the kernel says; null when nobody does, or where it does not tell. */
export const lockHolder = (path: string): number | null => writersOf(path).find(({ isOpen }) => isOpen)?.pid ?? null

/** Whether a process holds the lock on a file that may be another user's. The kernel is asked, and the file is not opened: SQLite believes
 *  what lies beside a file. It plays a journal back, and removes the one that is named in it, for root as well. A link is no lock. */
export function isLocked(path: string): boolean {
  if (!tellsLockHolders()) return lstatSync(path, { throwIfNoEntry: false })?.isFile() === true && !isUnlocked(path)
  return writersOf(path).some(({ isOpen, isSame }) => isOpen || isSame)
}

type Writer = {
  readonly pid: number
  /** Whether it has the file open, as far as that is told. A process that is ending has let go of its files and not yet of its locks. */
  readonly isOpen: boolean
  /** Whether the kernel names the file's own device. Some file systems have another name for it here than there. */
  readonly isSame: boolean
}

/** The processes that hold a lock to write on a file of this number. Other file systems have files of the same number. */
function writersOf(path: string): readonly Writer[] {
  // Opened without following a link and without touching the file, so that number and place are those of one file.
  let file: number
  try {
    file = openSync(path, (process.platform === 'linux' ? O_PATH : 0) | constants.O_NOFOLLOW)
  } catch {
    return []
  }
  try {
    const { ino, dev } = fstatSync(file)
    const real = readlinkSync(`/proc/self/fd/${file}`)
    const device = `${hex((dev >> 8) & 0xfff)}:${hex((dev & 0xff) | ((dev >> 12) & 0xfff00))}`
    // proc_locks(5): the number of the process is the fifth field, and the sixth is the file's device and inode.
    return readFileSync('/proc/locks', 'latin1')
      .split('\n')
      .map((line) => line.split(/\s+/))
      .filter(([, kind, , mode, , at]) => kind === 'POSIX' && mode === 'WRITE' && at?.endsWith(`:${ino}`))
      .map(([, , , , pid, at]) => ({ pid: Number(pid), isOpen: hasOpen(Number(pid), real), isSame: at === `${device}:${ino}` }))
  } catch {
    return [] // there is no such table
  } finally {
    closeSync(file)
  }
}
const hex = (number: number) => number.toString(16).padStart(2, '0')

function hasOpen(pid: number, path: string): boolean {
  const folder = `/proc/${pid}/fd`
  try {
    return readdirSync(folder).some((fd) => isLinkTo(`${folder}/${fd}`, path))
  } catch {
    // It has gone, or is another user's, who locks another file.
    return false
  }
}

function isLinkTo(link: string, path: string): boolean {
  try {
    return readlinkSync(link) === path
  } catch {
    return false
  }
}
