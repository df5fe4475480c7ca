import { rehearsalFolder, unmadeState } from '@anchorhold/core/places'
import type { SessionId } from '@anchorhold/protocol/ids'
import { chmodSync, closeSync, constants, fchmodSync, fchownSync, mkdirSync, openSync } from 'node:fs'

/** The users that the parts run as when the daemon is root: one for the gate, one for each session. The range lies above
 *  what systems give to people, services and containers, and below what 32-bit signed numbers hold. */
export const gateUser = { uid: 1_900_000_000, gid: 1_900_000_000 } as const
/** The demo model's: it holds nothing and needs nothing, so it is neither root nor whoever keeps the keys. */
export const rehearsalUser = { uid: 1_899_999_999, gid: 1_899_999_999 } as const
export const firstSessionUid = 1_900_000_001

/** The state folder, drawn once. */
export function folders(state: string) {
  const session = (id: SessionId) => `${state}/sessions/${id}`
  return {
    state,
    database: `${state}/anchorhold.db`,
    lock: `${state}/daemon.lock`,
    log: `${state}/daemon.log`,
    /** What was found out about this machine. */
    doctor: `${state}/doctor.json`,
    /** The policies that could last be used. */
    policies: `${state}/policies`,
    /** The key that push services know this house by. */
    pushKey: `${state}/push-key.json`,
    runtime: `${state}/runtime`,
    images: `${state}/images`,
    /** What sessions of one folder share of what they download. */
    caches: `${state}/caches`,
    /** What was hidden in host folders before, by folder and user. */
    hidden: `${state}/hidden`,
    /** The gate's own: link socket, outbox, key. */
    gate: `${state}/gate`,
    gateSocket: `${state}/gate/link.sock`,
    gateLock: `${state}/gate/gate.lock`,
    gateLog: `${state}/gate.log`,
    /** The demo model's socket, and what is compiled of it. */
    rehearsal: rehearsalFolder(`${state}/gate`),
    rehearsalLog: `${state}/rehearsal.log`,
    session,
    home: (id: SessionId) => `${session(id)}/home`,
    workspace: (id: SessionId) => `${session(id)}/workspace`,
    /** What the driver of its cell keeps. */
    cell: (id: SessionId) => `${session(id)}/cell`,
    outbox: (id: SessionId) => `${session(id)}/outbox`,
    /** What the session's agent was saying, for when its keeper died. */
    saying: (id: SessionId) => `${session(id)}/saying.log`,
    keeperSocket: (id: SessionId) => `${session(id)}/keeper.sock`,
    keeperLock: (id: SessionId) => `${session(id)}/keeper.lock`,
    /** Says that the session is being made or removed. */
    unsettled: (id: SessionId) => `${state}/unsettled/${id}`,
    keepersLog: `${state}/keepers.log`,
    /** Cells that are no session's, each with what it needs, for as long as whoever launched it lives. */
    launched: `${state}/launched`,
    windows: (id: SessionId) => `${state}/windows/${id}`,
  }
}
export type Folders = ReturnType<typeof folders>

/** Makes the shared part of the state folder. As root, other users pass through it to what is theirs, and list nothing. */
export function makeFolders(all: Folders, root: boolean): void {
  const through = root ? 0o711 : 0o700
  try {
    makeFolder(all.state, through)
  } catch (cause) {
    throw unmadeState(all.state, cause)
  }
  for (const name of ['sessions', 'windows', 'launched', 'caches', 'hidden']) makeFolder(`${all.state}/${name}`, through)
  makeFolder(`${all.state}/unsettled`, 0o700)
  makeFolder(all.runtime, root ? 0o755 : 0o700)
  makeFolder(all.gate, 0o700, root ? gateUser : null)
}

/** The folder of the demo model's socket. Who may enter it may call the demo model: the gate, and nobody else. As root the two are users of
 *  their own, and the gate enters by its group; for an ordinary user both are that user. */
export function makeRehearsalFolder(path: string, root: boolean): void {
  makeFolder(path, root ? 0o710 : 0o700, root ? { uid: rehearsalUser.uid, gid: gateUser.gid } : null)
}

type User = { readonly uid: number; readonly gid: number }

/** The folder of a session's windows: the gate makes sockets in it and the cell sees it, and nobody else may pass. */
export function makeWindows(all: Folders, id: SessionId, runAs: User | null): string {
  const path = all.windows(id)
  makeFolder(path, runAs === null ? 0o700 : 0o770, runAs === null ? null : { uid: runAs.uid, gid: gateUser.gid })
  return path
}

/** A folder with exactly this mode and owner, whatever the umask. One that is given to somebody may lie in a folder of theirs: a link that
 *  they have laid in its place is not followed, and refused. */
export function makeFolder(path: string, mode: number, owner: User | null = null): void {
  mkdirSync(path, { recursive: true, mode })
  if (owner === null) return chmodSync(path, mode)
  const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants
  const folder = openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
  try {
    fchmodSync(folder, mode)
    fchownSync(folder, owner.uid, owner.gid)
  } finally {
    closeSync(folder)
  }
}
