import type { Database } from 'better-sqlite3'
import type { SecretRow, SecretTable } from '../store.ts'

type Row = { name: string; box: string; mask: string; changed_at: number }

export function sqliteSecrets(db: Database): SecretTable {
  const put = db.prepare(`
    insert into secret (name, box, mask, changed_at) values (?, ?, ?, ?)
    on conflict (name) do update set box = excluded.box, mask = excluded.mask,
      changed_at = excluded.changed_at`)
  const list = db.prepare<[], Row>(`select * from secret order by name`)
  const get = db.prepare<[string], Row>(`select * from secret where name = ?`)
  const remove = db.prepare(`delete from secret where name = ?`)
  return {
    put: ({ name, box, mask, changedAt }) => void put.run(name, box, mask, changedAt),
    get(name) {
      const row = get.get(name)
      return row === undefined ? null : toSecret(row)
    },
    list: () => list.all().map(toSecret),
    remove: (name) => remove.run(name).changes > 0,
  }
}

const toSecret = ({ changed_at, ...row }: Row): SecretRow => ({ ...row, changedAt: changed_at })
