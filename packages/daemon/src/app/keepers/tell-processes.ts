import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { GateCommand } from '@anchorhold/protocol/gate-commands'
import type { KeeperCommand } from '@anchorhold/protocol/keeper-commands'
import type { Parts } from '../parts.ts'

/** Tells the session's keeper, also one that is just being started, as soon as it stands. Where there is none, or it is leaving, nobody
 *  needs to hear it: the next one begins with what the log says. `still` is asked when it stands. */
export async function tellKeeper(
  parts: Pick<Parts, 'keepers'>,
  id: SessionId,
  command: KeeperCommand,
  still: () => boolean = () => true,
): Promise<void> {
  const stands = await parts.keepers.stands(id).catch(unlessGone)
  if (stands !== true || !still()) return
  await parts.keepers.do(id, command).catch(unlessGone)
}

/** Tells the gate about a session. One that does not serve it yet opens its windows by what the log says. */
export async function tellGate(parts: Pick<Parts, 'gate'>, command: GateCommand): Promise<void> {
  await parts.gate.do(command).catch(unlessGone)
}

/** That it is gone, leaving or not there yet is expected; a refusal is not. */
function unlessGone(error: unknown): void {
  const gone = ['not_found', 'wrong_state', 'keeper_unavailable', 'gate_unavailable']
  if (!(error instanceof Failure) || !gone.includes(error.code)) throw error
}
