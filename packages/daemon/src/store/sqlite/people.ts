import type { SessionId, UserId } from '@anchorhold/protocol/ids'
import type { Role, Share, ShareAccess, User } from '@anchorhold/protocol/people'
import type { Database } from 'better-sqlite3'
import type { PeopleTable } from '../store.ts'

type Row = { id: string; name: string; role: string; policy: string | null; created_at: number }

/** The sessions that a user may see, for the end of a `where`. */
export const seenIds = `(select id from session where owner = @seenBy union all select session_id from session_share where user_id = @seenBy)`

export function sqlitePeople(db: Database): PeopleTable {
  const columns = 'id, name, role, policy, created_at'
  const insert = db.prepare(`insert into user (${columns}) values (?, ?, ?, ?, ?)`)
  const get = db.prepare<[string], Row>(`select ${columns} from user where id = ? and removed_at is null`)
  const byName = db.prepare<[string], Row>(`select ${columns} from user where name = ? and removed_at is null`)
  const list = db.prepare<[], Row>(`select ${columns} from user where removed_at is null order by created_at, id`)
  const setRole = db.prepare(`update user set role = ?, policy = ? where id = ?`)
  const remove = db.prepare(`update user set removed_at = ? where id = ?`)
  const removeShares = db.prepare(`delete from session_share where user_id = ?`)
  const ownerOf = db.prepare<[string], { owner: string }>(`select owner from session where id = ?`)
  const share = db.prepare(
    `insert into session_share (session_id, user_id, access) values (?, ?, ?) on conflict do update set access = excluded.access`,
  )
  const unshare = db.prepare(`delete from session_share where session_id = ? and user_id = ?`)
  const shares = db.prepare<[string], { user_id: string; name: string; access: string }>(
    `select user_id, name, access from session_share join user on user.id = user_id where session_id = ? order by name`,
  )
  const user = (row: Row | undefined): User | null =>
    row === undefined ? null : { ...row, id: row.id as UserId, role: row.role as Role }
  const sharesOf = (session: SessionId): readonly Share[] =>
    shares.all(session).map(({ user_id, name, access }) => ({ user: user_id as UserId, name, access: access as ShareAccess }))
  return {
    insert: ({ id, name, role, policy, created_at }) => void insert.run(id, name, role, policy, created_at),
    get: (id) => user(get.get(id)),
    byName: (name) => user(byName.get(name)),
    list: () => list.all().map((row) => user(row)!),
    setRole: (id, role, policy) => {
      setRole.run(role, policy, id)
      // An agent sees its own and nothing else, whatever was shown to it before.
      if (role === 'agent') removeShares.run(id)
    },
    remove: (id, at) => {
      removeShares.run(id)
      remove.run(at, id)
    },
    ties(session) {
      const row = ownerOf.get(session)
      return row === undefined ? null : { owner: row.owner as UserId, shares: sharesOf(session) }
    },
    shares: sharesOf,
    share: (session, one, access) => void share.run(session, one, access),
    unshare: (session, one) => unshare.run(session, one).changes > 0,
  }
}
