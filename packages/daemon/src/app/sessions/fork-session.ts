import { type Actor, may } from '@anchorhold/core/actors'
import { isWithin } from '@anchorhold/core/workspace-paths'
import type { ForkSession } from '@anchorhold/protocol/api/sessions'
import type { Event } from '@anchorhold/protocol/events'
import { Failure } from '@anchorhold/protocol/failures'
import { newSessionId, type SessionId, uuidOfPrompt } from '@anchorhold/protocol/ids'
import type { Session } from '@anchorhold/protocol/sessions'
import { randomUUID } from 'node:crypto'
import { existsSync, realpathSync } from 'node:fs'
import { makeFolder } from '../../folders.ts'
import type { SessionRow } from '../../store/store.ts'
import { holdFolder } from '../../workspace/held-folder.ts'
import { copyTree, removeTree } from '../../workspace/trees.ts'
import { markSettled, markUnsettled } from '../../workspace/unsettled.ts'
import { freshUser } from './create-session.ts'
import { requireCredentials } from '../secrets/credentials.ts'
import { requireInside } from '../secrets/inside-secrets.ts'
import { requireTakeUp } from './lifecycle.ts'
import { admit, requireRoom } from '../policy/policy.ts'
import { providerFor } from '../money/providers.ts'
import { transaction, type Writes } from '../../transaction.ts'
import { by, type Judges, ownerOf, type Parts, type Reads, require, sessionFor, shown } from '../parts.ts'
import { type Keep, onceForKey } from './session-keys.ts'
import { requireProof } from '../people/step-up.ts'
import { refuseWider, rungFor } from './widening.ts'

const pageSize = 500
/** The last of an agent's messages may not have been written down when its home is copied; one of so many has. */
const candidatesMax = 50

/** A new session that goes on from where this one stands, or stood at one of its events. It has a copy of the agent's memory,
 *  and of the workspace as it is now unless it shares that. It is held to all that a new one is. */
export async function forkSession(
  parts: Judges & Writes & Pick<Parts, 'folders' | 'keepers' | 'newUser' | 'random'>,
  actor: Actor,
  from: SessionId,
  input: ForkSession,
): Promise<Session> {
  require(parts, actor, 'session.work', from)
  require(parts, actor, 'session.create')
  const origin = sessionFor(parts, from, 'fork')
  requireTakeUp(parts, actor, origin)
  const { idempotency_key: key, ...asked } = input
  const call = { key, provider: origin.provider, asked: { from, ...asked } }
  return onceForKey(parts, actor, call, (keep) => make(parts, actor, origin, input, keep))
}

async function make(
  parts: Judges & Writes & Pick<Parts, 'folders' | 'keepers' | 'newUser' | 'random'>,
  actor: Actor,
  origin: SessionRow,
  input: ForkSession,
  keep: Keep,
): Promise<Session> {
  const from = origin.id
  const at = input.at ?? origin.last_seq
  if (at > origin.last_seq)
    throw new Failure('bad_request', `Cannot fork session "${from}" at event ${at}: its last one is ${origin.last_seq}`)
  const memory = memoryAt(parts, origin, input.at ?? null)
  const { held, budgetNanos } = admit(parts, actor, {
    // What the session it comes from may see stays as it is.
    options: { ...origin.options, workspace: undefined },
    owner: ownerOf(actor),
    rung: rungFor(parts.config, actor, origin.rung),
    provider: providerFor(parts, origin.provider),
    model: origin.model,
    budgetNanos: origin.budgetNanos,
    hasKey: input.idempotency_key !== undefined,
  })
  refuseWider(parts.config, actor, widthOf(origin), origin.rung)
  if (origin.rung === 'none') requireProof(parts, actor, 'start a session without a wall')
  if (origin.network === 'host') requireProof(parts, actor, 'start a session on the host network')
  requireRoom(parts, actor, held)
  requireInside(parts, actor, origin.options)
  requireCredentials(parts, origin.network)
  const shares = input.share_workspace ?? false
  if (shares) refuseUnlessShareable(parts, actor, origin)
  const id = newSessionId(parts.random)
  const runAs = shares ? origin.runAs : freshUser(parts)
  markUnsettled(parts.folders, id)
  makeFolder(parts.folders.session(id), 0o700, runAs)
  try {
    const copying = { reader: origin.runAs, writer: runAs }
    const workspace = shares ? origin.workspace : parts.folders.workspace(id)
    if (!shares) {
      makeFolder(workspace, 0o755, runAs)
      await using folder = await holdFolder(realIn(parts, origin.workspace))
      await copyTree(folder, workspace, copying)
    }
    const home = parts.folders.home(id)
    makeFolder(home, 0o700, runAs)
    await using remembered = await holdFolder(realIn(parts, parts.folders.home(from)))
    await copyTree(remembered, home, copying)
    transaction(parts, (tx) => {
      const { workspace: _w, workspace_access: _a, ...options } = origin.options
      keep(tx, id)
      // It may have been archived or purged, or be nobody's to fork any more, since its files were copied.
      require(tx, actor, 'session.work', from)
      require(tx, actor, 'session.create')
      requireRoom(tx, actor, held)
      const still = sessionFor(tx, from, 'fork')
      requireTakeUp(tx, actor, still)
      if (shares) refuseUnlessShareable(parts, actor, still)
      if (shares && still.grants.length < origin.grants.length)
        throw new Failure('conflict', `Cannot fork session "${from}" into the same folder: it was archived meanwhile`)
      tx.store.sessions.insert({ id, ownerId: ownerOf(actor), options, runAs, grants: shares ? origin.grants : [], ...memory })
      tx.record(id, {
        type: 'session.created',
        body: {
          name: input.name ?? forkName(origin.name),
          rung: origin.rung,
          provider: origin.provider,
          model: origin.model,
          simulated: origin.simulated,
          workspace,
          budget_nanos: budgetNanos,
          forked_from: from,
          at,
          on_crash: origin.on_crash,
          spend: origin.spend,
          network: origin.network,
          ...(origin.options.autonomy === undefined ? {} : { autonomy: origin.options.autonomy }),
          ...(origin.secrets_inside.length === 0 ? {} : { secrets_inside: [...origin.secrets_inside] }),
          ...by(actor),
        },
      })
      tx.record(id, { type: 'session.state', body: { from: 'creating', to: 'ready', why: null } })
    })
  } catch (error) {
    await removeTree(parts.folders.session(id))
    markSettled(parts.folders, id)
    throw error
  }
  markSettled(parts.folders, id)
  return shown(parts.store.sessions.get(id)!)
}

type Memory = Pick<SessionRow, 'conversation' | 'conversing' | 'forgetAfter'>

/** What a fork is given of the conversation. The copied memory holds it under the same id: the two homes never meet. */
function memoryAt(parts: Reads, origin: SessionRow, at: number | null): Memory {
  const { conversation, conversing } = origin
  // All of it. A fork that has not gone on yet hands on as much as it was given itself.
  if (at === null) return { conversation, conversing, forgetAfter: origin.turns === 0 ? origin.forgetAfter : [] }
  const messages = messagesAt(parts, origin, at)
  return messages.length === 0
    ? { conversation: randomUUID(), conversing: false, forgetAfter: [] }
    : { conversation, conversing, forgetAfter: messages }
}

/** The agent's last messages at or before an event, the newest first; what a fork was given lies before its own. */
function messagesAt(parts: Reads, session: SessionRow, at: number): readonly string[] {
  const found: string[] = []
  for (let before = at + 1; before > 1 && found.length < candidatesMax;) {
    const page = parts.store.events.before(session.id, before, pageSize)
    found.push(...page.toReversed().flatMap(messageOf))
    before = page[0]?.seq ?? 0
  }
  if (found.length > 0 || session.forked_from === null) return [...new Set(found)].slice(0, candidatesMax)
  const [created] = parts.store.events.after(session.id, 0, 1)
  const origin = parts.store.sessions.get(session.forked_from)
  if (origin === null || created?.type !== 'session.created')
    throw new Failure(
      'conflict',
      `Cannot fork session "${session.id}" at event ${at}: the session that it was forked from is gone`,
      {
        hint: 'Fork it at one of its own prompts, or as it stands now',
      },
    )
  return messagesAt(parts, origin, created.body.at ?? origin.last_seq)
}

function messageOf(event: Event): readonly string[] {
  switch (event.type) {
    case 'prompt':
    case 'prompt.again':
      return [uuidOfPrompt(event.body.id)]
    case 'text':
    case 'thinking':
    case 'tool.started':
    case 'tool.finished':
      return event.body.message === undefined ? [] : [event.body.message]
    default:
      return []
  }
}

/** What somebody has chosen for the session. Its repository, and the filter of a folder of its own, the house has settled. */
function widthOf({ options }: SessionRow): SessionRow['options'] {
  const { repo: _, repo_filter: filter, ...rest } = options
  return options.workspace === undefined || filter === undefined ? rest : { ...rest, repo_filter: filter }
}

/** A host folder was judged by its real path; of one of our own, the state folder may be reached by a link of the operator's. */
function realIn({ config: { state } }: Pick<Parts, 'config'>, path: string): string {
  return isWithin(path, state) ? `${realpathSync(state)}${path.slice(state.length)}` : path
}

/** Whether this actor could have been given the folder without the session: it may outlive the share that the session is reached by. */
function mayHave({ config }: Pick<Parts, 'config'>, actor: Actor, { ownerId, workspace }: SessionRow): boolean {
  if (may(actor, 'session.any_folder')) return true
  const path = realpathSync(workspace)
  if (isWithin(workspace, config.state)) return ownerId === ownerOf(actor)
  return config.sharedFolders.some((folder) => isWithin(path, folder))
}

function refuseUnlessShareable(parts: Pick<Parts, 'config'>, actor: Actor, origin: SessionRow): void {
  const { id, state, options, workspace, grants } = origin
  const why = !existsSync(workspace)
    ? 'it is gone'
    : !mayHave(parts, actor, origin)
      ? 'it is neither yours nor a shared folder'
      : state === 'archived' && (options.workspace_access === 'acl' || grants.length > 0)
        ? 'the session is archived, and its access to the folder was taken back'
        : null
  if (why !== null)
    throw new Failure('workspace_refused', `Cannot share the workspace of session "${id}" ("${workspace}"): ${why}`, {
      hint: 'Fork it with a copy, or create a session for the folder',
    })
}

/** A fork of a fork is counted. */
export function forkName(origin: string): string {
  const fork = /^(.+) \(fork(?: (\d{1,6}))?\)$/s.exec(origin)
  return fork === null ? `${origin} (fork)` : `${fork[1]} (fork ${Number(fork[2] ?? 1) + 1})`
}
