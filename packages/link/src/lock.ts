import { DatabaseSync } from 'node:sqlite'

export interface Lock {
  release(): void
}

/** Takes a kernel lock on a file, or returns null when another process holds it. The kernel frees it when this
 *  process ends, however it ends; so no stale lock can be left behind, as a pid file could. */
export function takeLock(path: string): Lock | null {
  // SQLite holds an fcntl lock on the file for as long as an exclusive transaction is open; Node has no flock of its own.
  const db = new DatabaseSync(path, { timeout: 0 })
  try {
    db.exec('pragma locking_mode = exclusive; pragma journal_mode = memory; begin exclusive')
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
