import type { Database } from 'better-sqlite3'
import type { FolderTable } from '../store.ts'

export function sqliteFolders(db: Database): FolderTable {
  const find = db.prepare<[string], { repo: string | null }>('select repo from folder where path = ?')
  const keep = db.prepare<[string, string | null]>('insert or ignore into folder (path, repo) values (?, ?)')
  return {
    repoOf: (path) => find.get(path)?.repo,
    keepRepo: (path, repo) => void keep.run(path, repo),
  }
}
