import Database, { type Database as Open } from 'better-sqlite3'
import { existsSync } from 'node:fs'

/** Looks at what a daemon has stored; null where there is nothing. */
export const readStored = <T>(database: string, read: (db: Open) => T): T | null =>
  existsSync(database) ? opened(database, { readonly: true }, read) : null

/** The same for what is also kept there; a daemon may be at work on it. */
export const keepStored = <T>(database: string, keep: (db: Open) => T): T | null =>
  existsSync(database) ? opened(database, { fileMustExist: true, timeout: busyMs }, keep) : null

const busyMs = 5000

function opened<T>(database: string, options: Database.Options, use: (db: Open) => T): T {
  const db = new Database(database, options)
  try {
    return use(db)
  } finally {
    db.close()
  }
}
