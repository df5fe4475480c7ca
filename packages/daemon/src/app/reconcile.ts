import type { SessionId } from '@anchorhold/protocol/ids'
import { deliverRest } from './deliver.ts'
import { openWindows } from './keeper-start.ts'
import { forgetKeeper } from './lost-keeper.ts'
import type { Parts } from './parts.ts'

/** Attaches to keepers that lived on while no daemon was there, and takes in what dead ones left. Nothing is served before that:
 *  whoever asks is to see the sessions as they are. */
export async function findKeepers(parts: Parts): Promise<void> {
  const { sessions, prompts } = parts.store
  // Where prompts are queued, a keeper may have them that the daemon before this one did not live to hear of.
  const sought = new Set([...sessions.tended().map(({ id }) => id), ...prompts.sessionsWithQueued()])
  await Promise.all(
    [...sought].map(async (id) => {
      // One that cannot be read must not keep the others from being found.
      const found = await parts.keepers.reattach(id).catch((error: unknown) => parts.log(`keeper of ${id}: ${String(error)}`))
      if (found !== true) forgetKeeper(parts, id, 'The keeper died while the daemon was away, and its cell with it')
    }),
  )
}

/** A keeper has gone while the daemon was there. */
export function keeperGone(parts: Parts, id: SessionId, { leaving }: { readonly leaving: boolean }): void {
  forgetKeeper(parts, id, 'The keeper died, and its cell with it')
  // A daemon that leaves starts nothing new.
  if (!leaving) deliverRest(parts, id)
}

/** A gate stands that serves these sessions by itself: each is to have the windows that it needs, and no other. */
export function gateUp(parts: Parts, served: readonly SessionId[]): void {
  const live = new Set(parts.keepers.sessions)
  const tell = (error: unknown) => parts.log(String(error))
  // The gate remembers sessions whose keepers may have gone while no daemon was there to tell it.
  for (const id of served) if (!live.has(id)) void parts.gate.do({ do: 'close', session: id }).catch(tell)
  for (const session of parts.store.sessions.tended()) if (live.has(session.id)) void openWindows(parts, session).catch(tell)
}
