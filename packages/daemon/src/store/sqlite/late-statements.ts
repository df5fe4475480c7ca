import type { Database, Statement } from 'better-sqlite3'

/** Has each statement prepared when it is first run: of those that a program might ever need, its start runs a few. */
export function preparingLate(db: Database): Database {
  const prepare = db.prepare.bind(db)
  return Object.assign(db, { prepare: (sql: string) => late(() => prepare(sql)) })
}

function late(prepare: () => Statement): Pick<Statement, 'run' | 'get' | 'all' | 'iterate'> {
  let prepared: Statement | null = null
  const statement = () => (prepared ??= prepare())
  return {
    run: (...values) => statement().run(...values),
    get: (...values) => statement().get(...values),
    all: (...values) => statement().all(...values),
    iterate: (...values) => statement().iterate(...values),
  }
}
