import type { UserId } from '@anchorhold/protocol/ids'
import type { Database } from 'better-sqlite3'
import type { LoginTable, PasskeyRow } from '../store.ts'

type Row = {
  id: string
  user_id: string
  name: string
  site: string
  public_key: Buffer
  counter: number
  created_at: number
  used_at: number | null
}

export function sqliteLogins(db: Database): LoginTable {
  const password = db.prepare<[string], { hash: string }>(`select hash from password where user_id = ?`)
  const setPassword = db.prepare(
    `insert into password (user_id, hash, set_at) values (?, ?, ?) on conflict do update set hash = excluded.hash, set_at = excluded.set_at`,
  )
  const removePassword = db.prepare(`delete from password where user_id = ?`)
  const anyPassword = db.prepare<[], { found: number }>(`select exists (select 1 from password) as found`)
  const anyPasskey = db.prepare<[], { found: number }>(`select exists (select 1 from passkey) as found`)
  const passkey = db.prepare<[string], Row>(`select * from passkey where id = ?`)
  const passkeys = db.prepare<[string], Row>(`select * from passkey where user_id = ? order by created_at`)
  const insertPasskey = db.prepare(
    `insert into passkey (id, user_id, name, site, public_key, counter, created_at) values (?, ?, ?, ?, ?, ?, ?)`,
  )
  // Two uses of one count cannot both be good; authenticators that do not count stay at zero.
  const usePasskey = db.prepare(
    `update passkey set counter = @counter, used_at = @at where id = @id and (counter < @counter or (counter = 0 and @counter = 0))`,
  )
  const removePasskey = db.prepare(`delete from passkey where id = ? and user_id = ?`)
  const totp = db.prepare<[string], { secret: Buffer; last_step: number }>(`select secret, last_step from totp where user_id = ?`)
  const setTotp = db.prepare(
    `insert into totp (user_id, secret, last_step) values (?, ?, ?) on conflict do update set secret = excluded.secret, last_step = excluded.last_step`,
  )
  const useStep = db.prepare(`update totp set last_step = @step where user_id = @user and last_step < @step`)
  const removeTotp = db.prepare(`delete from totp where user_id = ?`)
  const addCode = db.prepare(`insert into recovery_code (user_id, hash) values (?, ?)`)
  const useCode = db.prepare(`delete from recovery_code where user_id = ? and hash = ?`)
  const countCodes = db.prepare<[string], { count: number }>(`select count(*) as count from recovery_code where user_id = ?`)
  const removeCodes = db.prepare(`delete from recovery_code where user_id = ?`)
  const removePasskeys = db.prepare(`delete from passkey where user_id = ?`)
  const endTotp = (user: UserId) => {
    removeCodes.run(user)
    return removeTotp.run(user).changes > 0
  }
  return {
    any: () => ({ password: anyPassword.get()!.found === 1, passkey: anyPasskey.get()!.found === 1 }),
    password: (user) => password.get(user)?.hash ?? null,
    setPassword: (user, hash, at) => void setPassword.run(user, hash, at),
    removePassword: (user) => removePassword.run(user).changes > 0,
    passkey(id) {
      const row = passkey.get(id)
      return row === undefined ? null : toPasskey(row)
    },
    passkeys: (user) => passkeys.all(user).map(toPasskey),
    addPasskey: (row) =>
      void insertPasskey.run(row.id, row.user, row.name, row.site, Buffer.from(row.publicKey), row.counter, row.created_at),
    usePasskey: (id, counter, at) => usePasskey.run({ id, counter, at }).changes > 0,
    removePasskey: (user, id) => removePasskey.run(id, user).changes > 0,
    totp(user) {
      const row = totp.get(user)
      return row === undefined ? null : { secret: row.secret, lastStep: row.last_step }
    },
    setTotp(user, secret, lastStep, codes) {
      setTotp.run(user, Buffer.from(secret), lastStep)
      removeCodes.run(user)
      for (const code of codes) addCode.run(user, code)
    },
    useStep: (user, step) => useStep.run({ user, step }).changes > 0,
    removeTotp: endTotp,
    recoveryCodes: (user) => countCodes.get(user)!.count,
    useRecoveryCode: (user, hash) => useCode.run(user, hash).changes > 0,
    removeOf(user) {
      removePassword.run(user)
      removePasskeys.run(user)
      endTotp(user)
    },
  }
}

const toPasskey = ({ user_id, public_key, ...row }: Row): PasskeyRow => ({
  ...row,
  user: user_id as UserId,
  publicKey: public_key,
})
