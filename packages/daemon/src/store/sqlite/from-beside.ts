// The store for programs that run beside the daemon or without one: `sandbox`, `claude` and `doctor --disk`. Nothing is made or migrated here.
import Database, { type Database as Open } from 'better-sqlite3'
import { existsSync } from 'node:fs'
import type { FolderTable, ProviderTable, SecretTable } from '../store.ts'
import { sqliteFolders } from './folders.ts'
import { sqliteProviders } from './providers.ts'
import { sqliteSecrets } from './secrets.ts'

/** What is looked at from there. */
export type Glance = {
  readonly folders: FolderTable
  readonly providers: ProviderTable
  readonly secrets: SecretTable
  sessions(): readonly { readonly id: string; readonly name: string; readonly archived: boolean }[]
}

const busyMs = 5000

/** Looks at what a daemon has stored; null where there is nothing. */
export const readStored = <T>(database: string, read: (store: Glance) => T): T | null =>
  existsSync(database) ? opened(database, { readonly: true }, read) : null

/** The same for what is also kept there; a daemon may be at work on it. */
export const keepStored = <T>(database: string, keep: (store: Glance) => T): T | null =>
  existsSync(database) ? opened(database, { fileMustExist: true, timeout: busyMs }, keep) : null

function opened<T>(database: string, options: Database.Options, use: (store: Glance) => T): T {
  const db = new Database(database, options)
  try {
    return use(glance(db))
  } finally {
    db.close()
  }
}

/** Only what is used is prepared. */
const glance = (db: Open): Glance => ({
  get folders() {
    return sqliteFolders(db)
  },
  get providers() {
    return sqliteProviders(db)
  },
  get secrets() {
    return sqliteSecrets(db)
  },
  sessions: () =>
    db
      .prepare<[], { id: string; name: string; state: string }>('select id, name, state from session')
      .all()
      .map(({ id, name, state }) => ({ id, name, archived: state === 'archived' })),
})
