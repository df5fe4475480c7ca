import type { PushDeviceId, TokenId, UserId } from '@anchorhold/protocol/ids'
import type { Database } from 'better-sqlite3'
import type { PushDeviceRow, PushTable } from '../store.ts'

type Row = Omit<PushDeviceRow, 'id' | 'user' | 'token'> & { id: string; user_id: string; token_id: string }

export function sqlitePush(db: Database): PushTable {
  const insert = db.prepare(
    `insert into push_device (id, user_id, token_id, name, endpoint, p256dh, auth, created_at)
     values (@id, @user, @token, @name, @endpoint, @p256dh, @auth, @created_at)`,
  )
  const of = db.prepare<[string], Row>(`select * from push_device where user_id = ? order by created_at`)
  const all = db.prepare<[], Row>(`select * from push_device order by created_at`)
  const remove = db.prepare(`delete from push_device where id = ?`)
  const removeEndpoint = db.prepare(`delete from push_device where endpoint = ?`)
  return {
    insert: (row) => void insert.run(row),
    of: (user) => of.all(user).map(toDevice),
    all: () => all.all().map(toDevice),
    remove: (id) => void remove.run(id),
    removeEndpoint: (endpoint) => void removeEndpoint.run(endpoint),
  }
}

const toDevice = ({ id, user_id, token_id, ...row }: Row): PushDeviceRow => ({
  ...row,
  id: id as PushDeviceId,
  user: user_id as UserId,
  token: token_id as TokenId,
})
