import { type Actor, house } from '@anchorhold/core/actors'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { Session } from '@anchorhold/protocol/sessions'
import { removeCgroups } from '../processes/cgroups.ts'
import type { SessionRow } from '../store/store.ts'
import { reapHidden } from '../workspace/hidden-folder.ts'
import { removeTrees } from '../workspace/trees.ts'
import { markSettled, markUnsettled } from '../workspace/unsettled.ts'
import { revokeGrants } from '../workspace/workspace.ts'
import { queuedIn } from './drop.ts'
import { by, note, type Parts, record, require, sessionFor, shown } from './parts.ts'

/** Ends the session for good: no cell, no access to host folders, no more prompts. The log and the workspace stay. */
export async function archive(parts: Parts, actor: Actor, id: SessionId): Promise<Session> {
  require(parts, actor, 'session.work', id)
  const { state } = sessionFor(parts, id, 'archive')
  const why = `Archived by ${actor.name}`
  record(parts, id, { type: 'session.state', body: { from: state, to: 'archived', why, ...by(actor) } })
  await putAway(parts, actor, id, why)
  return shown(sessionFor(parts, id, null))
}

/** What a daemon that was ended in the middle of it had left to do for archived sessions. */
export async function finishArchives(parts: Parts): Promise<void> {
  const queued = parts.store.prompts.sessionsWithQueued()
  const half = new Set([...parts.store.sessions.granted(), ...queued])
  for (const id of half)
    if (parts.store.sessions.get(id)?.state === 'archived') await putAway(parts, house, id, 'The session is archived')
}

/** Ends what an archived session still has. May be done twice. */
async function putAway(parts: Parts, actor: Actor, id: SessionId, why: string): Promise<void> {
  await parts.keepers.end(id, why)
  await parts.keepers.stands(id)
  // Behind the keeper: what it had journalled by then is not dropped.
  for (const prompt of queuedIn(parts, id)) record(parts, id, { type: 'prompt.dropped', body: { id: prompt, why, ...by(actor) } })
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
export async function purge(parts: Parts, actor: Actor, id: SessionId, confirm: SessionId): Promise<void> {
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
    parts.store.atomically(() => {
      const session = sessionFor(parts, id, 'purge')
      refuseIfShared(parts, session)
      const hash = parts.store.chains.head(id)?.hash ?? null
      const { name, last_seq: seq } = session
      note(parts, { type: 'session.purged', body: { session: id, name, seq, hash, ...by(actor) } })
      parts.store.sessions.purge(id)
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

function refuseIfShared(parts: Parts, session: SessionRow): void {
  const [sharing] = parts.store.sessions.sharing(session)
  if (sharing === undefined || session.workspace !== parts.folders.workspace(session.id)) return
  throw new Failure('conflict', `Cannot purge session "${session.id}": session "${sharing.id}" works in its folder`, {
    hint: 'Purge that one first',
  })
}
