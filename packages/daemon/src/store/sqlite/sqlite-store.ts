import { Failure } from '@anchorhold/protocol/failures'
import Database from 'better-sqlite3'
import type { Store } from '../store.ts'
import { sqliteEventLog } from './event-log.ts'
import { first } from './migrations/001-first.ts'
import { source } from './migrations/002-source.ts'
import { positions } from './migrations/003-positions.ts'
import { unfinished } from './migrations/004-unfinished.ts'
import { forks } from './migrations/005-forks.ts'
import { withdrawn } from './migrations/006-withdrawn.ts'
import { requests } from './migrations/007-requests.ts'
import { ledger } from './migrations/008-ledger.ts'
import { people } from './migrations/009-people.ts'
import { chain } from './migrations/010-chain.ts'
import { policy } from './migrations/011-policy.ts'
import { logins } from './migrations/012-logins.ts'
import { calls } from './migrations/013-calls.ts'
import { push } from './migrations/014-push.ts'
import { folders } from './migrations/015-folders.ts'
import { secrets } from './migrations/016-secrets.ts'
import { checkedOut } from './migrations/017-checked-out.ts'
import { insideSecrets } from './migrations/018-inside-secrets.ts'
import { net } from './migrations/019-net.ts'
import { search } from './migrations/020-search.ts'
import { turns } from './migrations/021-turns.ts'
import { cursors } from './migrations/022-cursors.ts'
import { granted } from './migrations/023-granted.ts'
import { closedLeases } from './migrations/024-closed-leases.ts'
import { netDays } from './migrations/025-net-days.ts'
import { openRequests } from './migrations/026-open-requests.ts'
import { turnsByOr } from './migrations/027-turns-by-or.ts'
import { panics } from './migrations/028-panics.ts'
import { sqliteChains, sqliteHouseLog } from './chains.ts'
import { sqliteFolders } from './folders.ts'
import { sqlitePanics } from './panics.ts'
import { sqliteLedger } from './ledger.ts'
import { sqliteLogins } from './logins.ts'
import { sqlitePeople } from './people.ts'
import { sqlitePrompts } from './prompts.ts'
import { sqliteProviders } from './providers.ts'
import { sqlitePush } from './push.ts'
import { sqliteSecrets } from './secrets.ts'
import { sqliteRequests } from './requests.ts'
import { sqliteSearch } from './search.ts'
import { sqliteSessions } from './sessions.ts'
import { sqliteTokens } from './tokens.ts'
import { sqliteNet } from './net.ts'
import { sqliteTurns } from './turns.ts'
import { sqliteCalls, sqliteSpending, sqliteUsage } from './usage.ts'

/** In order, each applied once; forward only. */
const migrations = [
  first,
  source,
  positions,
  unfinished,
  forks,
  withdrawn,
  requests,
  ledger,
  people,
  chain,
  policy,
  logins,
  calls,
  push,
  folders,
  secrets,
  checkedOut,
  insideSecrets,
  net,
  search,
  turns,
  cursors,
  granted,
  closedLeases,
  netDays,
  openRequests,
  turnsByOr,
  panics,
] as const

export function sqliteStore(path: string): Store {
  const db = new Database(path)
  // FULL: what is acknowledged to an outbox is removed there, so it must survive a power cut here.
  db.exec('pragma journal_mode = wal; pragma synchronous = full; pragma foreign_keys = on; pragma busy_timeout = 2000')
  migrate(db)
  const together = db.transaction((work: () => unknown) => work())
  const rooms = {
    events: sqliteEventLog(db),
    house: sqliteHouseLog(db),
    chains: sqliteChains(db),
    sessions: sqliteSessions(db),
    prompts: sqlitePrompts(db),
    requests: sqliteRequests(db),
    tokens: sqliteTokens(db),
    people: sqlitePeople(db),
    logins: sqliteLogins(db),
    providers: sqliteProviders(db),
    push: sqlitePush(db),
    secrets: sqliteSecrets(db),
    ledger: sqliteLedger(db),
    folders: sqliteFolders(db),
    panics: sqlitePanics(db),
    usage: sqliteUsage(db),
    net: sqliteNet(db),
    turns: sqliteTurns(db),
    spending: sqliteSpending(db),
    calls: sqliteCalls(db),
    searching: sqliteSearch(db),
  }
  return Object.assign(rooms, {
    atomically<T>(work: () => T) {
      if (db.inTransaction) throw new Error('A transaction was begun within another')
      try {
        return together.immediate(work) as T
      } catch (error) {
        throw storageFailure(error, path)
      }
    },
    search: (query) => rooms.searching.search(query),
    index: () => rooms.searching.index(),
    close: () => void db.close(),
  } satisfies Partial<Store>)
}

/** A disk that is full or fails, or that keeps another program that writes here for long, is no bug of ours: whoever asked is told, and
 *  nothing was changed. */
function storageFailure(error: unknown, path: string): unknown {
  if (!(error instanceof Database.SqliteError) || !/^SQLITE_(FULL|IOERR|READONLY|CANTOPEN|BUSY)/.test(error.code)) return error
  const full = error.code === 'SQLITE_FULL'
  return new Failure('storage_unavailable', `Cannot write to "${path}": ${full ? 'the disk is full' : error.message}`, {
    hint: full
      ? 'Free some space; what waits is stored then'
      : 'See what is wrong with the disk; what waits is stored when it works',
    cause: error,
  })
}

function migrate(db: Database.Database): void {
  const version = db.pragma('user_version', { simple: true }) as number
  if (version > migrations.length) {
    throw new Failure(
      'storage_unavailable',
      `The database is of a newer Anchorhold (schema ${version}, this one knows ${migrations.length})`,
      { hint: 'Install that release again, or put a backup of this one back: the whole state folder, not the database alone' },
    )
  }
  for (const [index, sql] of migrations.entries()) {
    if (index < version) continue
    db.transaction(() => {
      db.exec(sql)
      db.pragma(`user_version = ${index + 1}`)
    }).immediate()
  }
}
