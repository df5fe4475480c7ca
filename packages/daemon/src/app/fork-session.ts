import type { Actor } from '@anchorhold/core/actors'
import type { ForkSession } from '@anchorhold/protocol/api'
import { newSessionId, type SessionId } from '@anchorhold/protocol/ids'
import type { Session } from '@anchorhold/protocol/sessions'
import { makeFolder } from '../folders.ts'
import { copyTree, removeTree } from '../workspace/trees.ts'
import { freshUser } from './create-session.ts'
import { type Parts, record, require, sessionFor, shown } from './parts.ts'

/** A new session that goes on from where this one stands, with copies of its workspace and of the agent's memory. */
export async function forkSession(parts: Parts, actor: Actor, from: SessionId, input: ForkSession): Promise<Session> {
  require(actor, 'work')
  const origin = sessionFor(parts, from, 'fork')
  const id = newSessionId(parts.random)
  const fresh = freshUser(parts)
  makeFolder(parts.folders.session(id), 0o700, fresh)
  try {
    const workspace = parts.folders.workspace(id)
    makeFolder(workspace, 0o755, fresh)
    const copying = { reader: origin.runAs, writer: fresh }
    await copyTree(origin.workspace, workspace, copying)
    const home = parts.folders.home(id)
    makeFolder(home, 0o700, fresh)
    await copyTree(parts.folders.home(from), home, copying)
    parts.store.atomically(() => {
      const { workspace: _w, workspace_access: _a, ...options } = origin.options
      // The copied memory holds the conversation under the same id; the two homes never meet.
      parts.store.sessions.insert({
        id,
        options,
        runAs: fresh,
        conversation: origin.conversation,
        conversing: origin.conversing,
        grants: [],
      })
      record(parts, id, {
        type: 'session.created',
        body: {
          name: input.name ?? `${origin.name} (fork)`,
          rung: origin.rung,
          provider: origin.provider,
          model: origin.model,
          simulated: origin.simulated,
          workspace,
          budget_nanos: origin.budgetNanos,
          forked_from: from,
          on_crash: origin.on_crash,
          actor: actor.name,
        },
      })
      record(parts, id, { type: 'session.state', body: { from: 'creating', to: 'ready', why: null } })
    })
  } catch (error) {
    await removeTree(parts.folders.session(id))
    throw error
  }
  return shown(parts.store.sessions.get(id)!)
}
