import type { SessionId, TokenId, UserId } from '@anchorhold/protocol/ids'
import type { Database } from 'better-sqlite3'
import type { TokenRow, TokenTable } from '../store.ts'

type Row = {
  id: string
  name: string
  role: string
  user_id: string
  hash: string
  created_at: number
  used_at: number | null
  expires_at: number | null
  address: string | null
  agent: string | null
  proved_at: number | null
}

export function sqliteTokens(db: Database): TokenTable {
  const insert = db.prepare(
    `insert into token (id, name, role, user_id, hash, created_at, used_at, expires_at, address, agent, proved_at)
     values (@id, @name, @role, @user, @hash, @created_at, @used_at, @expires_at, @address, @agent, @proved_at)`,
  )
  const byHash = db.prepare<[string], Row>(`select * from token where hash = ?`)
  const get = db.prepare<[string], Row>(`select * from token where id = ?`)
  const list = db.prepare<[], Row>(`select * from token where role <> 'link' order by created_at`)
  const touch = db.prepare(`update token set used_at = ?, address = coalesce(?, address) where id = ?`)
  const prove = db.prepare(`update token set proved_at = ? where id = ?`)
  const remove = db.prepare(`delete from token where id = ?`)
  const removeOf = db.prepare(`delete from token where user_id = ?`)
  const removeLinksOf = db.prepare(`delete from token where user_id = ? and role = 'link'`)
  const removeExpired = db.prepare(`delete from token where expires_at < ?`)
  const byKey = db.prepare<[string, string], { session_id: string; digest: string }>(
    `select session_id, digest from session_key where actor = ? and key = ?`,
  )
  const keepKey = db.prepare(`insert into session_key (actor, key, session_id, digest) values (?, ?, ?, ?)`)
  return {
    insert: (row) => void insert.run(row),
    byHash(hash) {
      const row = byHash.get(hash)
      return row === undefined ? null : toToken(row)
    },
    get(id) {
      const row = get.get(id)
      return row === undefined ? null : toToken(row)
    },
    list: () => list.all().map(toToken),
    touch: (id, at, address) => void touch.run(at, address, id),
    prove: (id, at) => void prove.run(at, id),
    remove: (id) => remove.run(id).changes > 0,
    removeOf: (user) => void removeOf.run(user),
    removeLinksOf: (user) => void removeLinksOf.run(user),
    removeExpired: (now) => void removeExpired.run(now),
    sessionByKey(actor, key) {
      const row = byKey.get(actor, key)
      return row === undefined ? null : { session: row.session_id as SessionId, digest: row.digest }
    },
    keepSessionKey: (actor, key, session, digest) => void keepKey.run(actor, key, session, digest),
  }
}

function toToken({ user_id, ...row }: Row): TokenRow {
  const role = row.role as TokenRow['role']
  return { ...row, id: row.id as TokenId, user: user_id as UserId, role, kind: role === 'bearer' ? 'token' : 'login' }
}
