import { leavesWork } from '@anchorhold/core/session-states'
import type { EventBody } from '@anchorhold/protocol/events'
import type { FailureCode } from '@anchorhold/protocol/failures'
import type { PromptId } from '@anchorhold/protocol/ids'
import type { SessionState, TurnEnd } from '@anchorhold/protocol/sessions'

/** What a script can tell from the exit code. The reference in docs/ is made from this table. */
export const exitCodes = {
  0: 'the turn ended `done`, or the command did what it was asked',
  1: 'the turn ended with an error, or the command failed; `prove`: an attack succeeded or could not be carried out',
  2: 'the command line was wrong, or asks for what is refused: a workspace, or no budget where a policy wants one',
  3: 'the turn waits for an answer that did not come',
  4: 'the budget is used up',
  5: 'a breaker stopped the turn',
  6: 'the turn was cut short by a crash',
  7: 'this machine cannot start such a cell (`prove`, `doctor`: none of those tried), or the provider is not set up',
  8: 'the daemon does not know this token, or does not answer',
  130: 'the turn was interrupted',
} as const
export type ExitCode = keyof typeof exitCodes

export const exitOfTurn = {
  done: 0,
  error: 1,
  waiting: 3,
  budget: 4,
  breaker: 5,
  crashed: 6,
  interrupted: 130,
} as const satisfies Record<TurnEnd, ExitCode>

/** What the end of a turn means for who follows a prompt that the agent has; null where the prompt is not over. */
export function exitOfEnd(end: Pick<EventBody<'turn.ended'>, 'reason' | 'left'>, prompt: PromptId): ExitCode | null {
  // What a crash did shows in the state that follows: the turn may be taken up again.
  if (end.reason === 'crashed') return null
  // It came when the turn was as good as over, and the next one takes it up.
  if (leavesWork(end) && end.left?.includes(prompt) === true) return null
  return exitOfTurn[end.reason]
}

/** States in which nothing follows by itself. A keeper that was killed ends no turn any more: its session is interrupted. */
export const exitOfState: Partial<Record<SessionState, ExitCode>> = { failed: 1, interrupted: 6, stopped: 130, archived: 130 }

export const exitOfFailure = (code: FailureCode): ExitCode => {
  if (code === 'cell_unavailable' || code === 'provider_unavailable') return 7
  if (code === 'unauthenticated') return 8
  if (code === 'bad_request' || code === 'workspace_refused') return 2
  return 1
}
