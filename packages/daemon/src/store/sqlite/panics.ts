import { UserId } from '@anchorhold/protocol/ids'
import type { Database } from 'better-sqlite3'
import type { PanicTable } from '../store.ts'

type Row = { readonly user_id: string; readonly at: number; readonly actor: string; readonly door: string }

export function sqlitePanics(db: Database): PanicTable {
  const all = db.prepare<[], Row>('select user_id, at, actor, door from panic order by at')
  const put = db.prepare<[string, number, string, string]>(
    'insert into panic (user_id, at, actor, door) values (?, ?, ?, ?) on conflict (user_id) do update set at = excluded.at, actor = excluded.actor, door = excluded.door',
  )
  const lift = db.prepare<[string]>('delete from panic where user_id = ?')
  const liftAll = db.prepare<[]>('delete from panic')
  return {
    list: () =>
      all
        .all()
        .map(({ user_id: user, at, actor, door }) => ({ user: user === everybody ? null : UserId.parse(user), at, actor, door })),
    put: ({ user, at, actor, door }) => void put.run(user ?? everybody, at, actor, door),
    lift: (user) => (user === null ? liftAll.run() : lift.run(user)).changes > 0,
  }
}

const everybody = ''
