import { Credential, ProviderKind } from '@anchorhold/protocol/providers'
import type { Database } from 'better-sqlite3'
import type { ProviderRow, ProviderTable } from '../store.ts'

type Row = { name: string; kind: string; base_url: string | null; auth: string; credential: string; model: string }

export function sqliteProviders(db: Database): ProviderTable {
  const put = db.prepare(`
    insert into provider (name, kind, base_url, auth, credential, model) values (?, ?, ?, ?, ?, ?)
    on conflict (name) do update set kind = excluded.kind, base_url = excluded.base_url, auth = excluded.auth,
      credential = excluded.credential, model = excluded.model`)
  const get = db.prepare<[string], Row>(`select * from provider where name = ?`)
  const list = db.prepare<[], Row>(`select * from provider order by name`)
  const remove = db.prepare(`delete from provider where name = ?`)
  const inUse = db.prepare<[], { name: string }>(`select name from provider where in_use = 1`)
  const use = db.prepare(`update provider set in_use = (name = coalesce(?, ''))`)
  return {
    put: (row) => void put.run(row.name, row.kind, row.baseUrl, row.auth, JSON.stringify(row.credential), row.model),
    get(name) {
      const row = get.get(name)
      return row === undefined ? null : toProvider(row)
    },
    list: () => list.all().map(toProvider),
    remove: (name) => remove.run(name).changes > 0,
    inUse: () => inUse.get()?.name ?? null,
    use: (name) => void use.run(name),
  }
}

function toProvider(row: Row): ProviderRow {
  return {
    name: row.name,
    kind: ProviderKind.parse(row.kind),
    baseUrl: row.base_url,
    auth: row.auth as ProviderRow['auth'],
    credential: Credential.parse(JSON.parse(row.credential)),
    model: row.model,
  }
}
