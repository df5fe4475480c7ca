import { type Actor, house } from '@anchorhold/core/actors'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { Session } from '@anchorhold/protocol/sessions'
import { removeCgroups } from '../../processes/cgroups.ts'
import type { SessionRow } from '../../store/store.ts'
import { reapHidden } from '../../workspace/hidden-folder.ts'
import { removeTrees } from '../../workspace/trees.ts'
import { markSettled, markUnsettled } from '../../workspace/unsettled.ts'
import { revokeGrants } from '../../workspace/workspace.ts'
import { transaction } from '../../transaction.ts'
import { dropQueued, queuedIn } from '../prompts/drop.ts'
import { by, type Delivers, type Parts, type Reads, require, sessionFor, shown } from '../parts.ts'

/** Ends the session for good: no cell, no access to host folders, no more prompts. The log and the workspace stay. */
export async function archive(parts: Delivers, actor: Actor, id: SessionId): Promise<Session> {
  const why = `Archived by ${actor.name}`
  transaction(parts, (tx) => {
    require(tx, actor, 'session.work', id)
    const { state } = sessionFor(tx, id, 'archive')
    tx.record(id, { type: 'session.state', body: { from: state, to: 'archived', why, ...by(actor) } })
  })
  await putAway(parts, actor, id, why)
  return shown(sessionFor(parts, id, null))
}

/** What a daemon that was ended in the middle of it had left to do for archived sessions. */
export async function finishArchives(parts: Delivers): Promise<void> {
  const queued = parts.store.prompts.sessionsWithQueued()
  const half = new Set([...parts.store.sessions.granted(), ...queued])
  for (const id of half)
    if (parts.store.sessions.get(id)?.state === 'archived') await putAway(parts, house, id, 'The session is archived')
}

/** Ends what an archived session still has. May be done twice. */
async function putAway(parts: Delivers, actor: Actor, id: SessionId, why: string): Promise<void> {
  await parts.keepers.end(id, why)
  await parts.keepers.stands(id)
  // Behind the keeper: what it had journalled by then is not dropped.
  dropQueued(parts, actor, id, queuedIn(parts, id), why)
  const session = parts.store.sessions.get(id)
  if (session === null || session.grants.length === 0 || session.runAs === null) return
  const { runAs } = session
  // Forks may share folder and user: the last one that is not archived takes the entries along.
  const isShared = parts.store.sessions
    .sharing(session)
    .some((other) => other.state !== 'archived' && other.runAs?.uid === runAs.uid)
  try {
    if (!isShared) await revokeGrants(session.grants, runAs)
    parts.store.sessions.setGrants(id, [])
  } catch (error) {
    // They stay written down: the next start, or a purge, tries again.
    parts.log(`session "${id}": ${error instanceof Error ? error.message : String(error)}`)
  }
}

/** Removes an archived session for good. A host folder that it worked in is left alone. */
export async function purge(
  parts: Delivers & Pick<Parts, 'folders' | 'watches'>,
  actor: Actor,
  id: SessionId,
  confirm: SessionId,
): Promise<void> {
  require(parts, actor, 'session.purge', id)
  sessionFor(parts, id, 'purge')
  if (confirm !== id)
    throw new Failure('bad_request', `Cannot purge session "${id}": confirm names another`, { hint: 'Confirm with the same id' })
  // Its keeper may still be leaving.
  await putAway(parts, actor, id, `Purged by ${actor.name}`)
  refuseIfGranted(sessionFor(parts, id, 'purge'))
  // The log first: from here on nobody forks it. Folders that a daemon did not live to remove are marked as nobody's, and reaped by the next.
  markUnsettled(parts.folders, id)
  try {
    transaction(parts, (tx) => {
      require(tx, actor, 'session.purge', id)
      const session = sessionFor(tx, id, 'purge')
      refuseIfShared(tx, parts.folders, session)
      const hash = tx.store.chains.head(id)?.hash ?? null
      const { name, last_seq: seq } = session
      tx.note({ type: 'session.purged', body: { session: id, name, seq, hash, ...by(actor) } })
      tx.store.sessions.purge(id)
    })
  } catch (error) {
    markSettled(parts.folders, id)
    throw error
  }
  parts.watches.recheck()
  await removeTrees([parts.folders.session(id), parts.folders.windows(id)])
  markSettled(parts.folders, id)
  // A daemon that died before it had started a keeper may have left groups that no keeper took along.
  await removeCgroups(id)
  await reapHidden(parts.folders.hidden, parts.store.sessions.isWorkedIn)
}

/** Nobody else knows of the entries, and another session may get the user's number. */
function refuseIfGranted({ id, grants, workspace, runAs }: SessionRow): void {
  if (grants.length === 0 || runAs === null) return
  throw new Failure(
    'conflict',
    `Cannot purge session "${id}": the access of its user to "${workspace}" could not be taken back`,
    {
      hint: `Look into the daemon's log for why, and at who may use it (getfacl -R "${workspace}"); then purge again`,
    },
  )
}

function refuseIfShared({ store }: Reads, folders: Parts['folders'], session: SessionRow): void {
  const [sharing] = store.sessions.sharing(session)
  if (sharing === undefined || session.workspace !== folders.workspace(session.id)) return
  throw new Failure('conflict', `Cannot purge session "${session.id}": session "${sharing.id}" works in its folder`, {
    hint: 'Purge that one first',
  })
}
