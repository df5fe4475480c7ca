import type { Database } from 'better-sqlite3'
import type { SecretRow, SecretTable } from '../store.ts'

type Row = { name: string; box: string; mask: string; changed_at: number; inside: number }

export function sqliteSecrets(db: Database): SecretTable {
  const put = db.prepare(`
    insert into secret (name, box, mask, changed_at, inside) values (?, ?, ?, ?, ?)
    on conflict (name) do update set box = excluded.box, mask = excluded.mask,
      changed_at = excluded.changed_at, inside = excluded.inside`)
  const list = db.prepare<[], Row>(`select * from secret order by name`)
  const get = db.prepare<[string], Row>(`select * from secret where name = ?`)
  const remove = db.prepare(`delete from secret where name = ?`)
  return {
    put: ({ name, box, mask, changedAt, inside }) => void put.run(name, box, mask, changedAt, inside ? 1 : 0),
    get(name) {
      const row = get.get(name)
      return row === undefined ? null : toSecret(row)
    },
    list: () => list.all().map(toSecret),
    remove: (name) => remove.run(name).changes > 0,
  }
}

const toSecret = ({ changed_at, inside, ...row }: Row): SecretRow => ({ ...row, changedAt: changed_at, inside: inside === 1 })
