import type { Database, Statement } from 'better-sqlite3'

/** Which rows count: of everything, or of one session. Written apart, because only for one session does the index over sessions serve. */
export type Scopes = { readonly all: string; readonly one: string }

/** The same statement for everything and for one session. */
export function perScope<Filter extends { readonly session: string | null }, Row>(
  db: Database,
  scopes: Scopes,
  sql: (where: string) => string,
): (filter: { readonly session: string | null }) => Statement<[Filter], Row> {
  const all = db.prepare<[Filter], Row>(sql(scopes.all))
  const one = db.prepare<[Filter], Row>(sql(scopes.one))
  return ({ session }) => (session === null ? all : one)
}
