import type { EventBody, NewEvent } from '@anchorhold/protocol/events'
import type { RequestId } from '@anchorhold/protocol/ids'
import type { OnCrash, SessionState } from '@anchorhold/protocol/sessions'
import { house } from './actors.ts'

/** What people and programs may ask of a session. */
export type Verb =
  | 'prompt'
  | 'warm'
  | 'enter'
  | 'interrupt'
  | 'pause'
  | 'resume'
  | 'stop'
  | 'start'
  | 'fork'
  | 'archive'
  | 'purge'
  | 'answer'
  | 'change'

/** The one table of states: which verbs each allows, and each seed's word for it. */
export const states = {
  creating: {
    verbs: ['prompt', 'warm', 'enter', 'stop', 'archive', 'change', 'answer'],
    meaning: 'being set up',
    mount: 'creating',
    abode: 'creating',
  },
  ready: {
    verbs: ['prompt', 'warm', 'enter', 'interrupt', 'pause', 'stop', 'fork', 'archive', 'change', 'answer'],
    meaning: 'waits for a prompt',
    mount: 'idle',
    abode: 'running',
  },
  working: {
    verbs: ['prompt', 'warm', 'enter', 'interrupt', 'pause', 'stop', 'fork', 'archive', 'change', 'answer'],
    meaning: 'a turn runs',
    mount: 'working',
    abode: 'running',
  },
  waiting: {
    verbs: ['prompt', 'warm', 'enter', 'interrupt', 'pause', 'stop', 'fork', 'archive', 'change', 'answer'],
    meaning: 'a request is open',
    mount: 'pending_approval',
    abode: 'running',
  },
  paused: {
    verbs: ['prompt', 'warm', 'enter', 'interrupt', 'resume', 'stop', 'fork', 'archive', 'change', 'answer'],
    meaning: 'no new model call or tool starts',
    mount: 'working',
    abode: 'running',
  },
  stopped: {
    verbs: ['start', 'fork', 'archive', 'change'],
    meaning: 'its cell is gone, its workspace is kept',
    mount: 'complete',
    abode: 'stopped',
  },
  interrupted: {
    verbs: ['prompt', 'warm', 'enter', 'start', 'stop', 'fork', 'archive', 'change', 'answer'],
    meaning: 'a crash cut it short; the next prompt goes on',
    mount: 'failed',
    abode: 'stopped',
  },
  failed: {
    verbs: ['prompt', 'warm', 'enter', 'start', 'stop', 'fork', 'archive', 'change', 'answer'],
    meaning: 'it could not go on; the reason stands beside it',
    mount: 'failed',
    abode: 'error',
  },
  archived: { verbs: ['purge', 'fork'], meaning: 'read-only', mount: 'complete', abode: 'archived' },
} as const satisfies Record<SessionState, { verbs: readonly Verb[]; meaning: string; mount: string; abode: string }>

export const mayDo = (state: SessionState, verb: Verb): boolean => (states[state].verbs as readonly Verb[]).includes(verb)

/** What the state rests on: all that later events need of the earlier ones. */
export type Standing = {
  readonly state: SessionState
  readonly turn: boolean
  /** The agent was given a prompt whose turn has not begun. */
  readonly handed: boolean
  /** Requests that nobody has answered, whether or not anybody still waits for them. */
  readonly requests: number
  /** Those of them that were opened in the turn that runs, and of these the ones that nobody waits for any more. */
  readonly asked: readonly RequestId[]
  readonly left: readonly RequestId[]
  readonly keeper: boolean
  readonly onCrash: OnCrash
  /** Crashes in a row since a turn was last finished or a person decided how it goes on. */
  readonly crashes: number
}
export const atBirth: Standing = {
  state: 'creating',
  turn: false,
  handed: false,
  requests: 0,
  asked: [],
  left: [],
  keeper: false,
  onCrash: 'wait',
  crashes: 0,
}

/** How often in a row a turn that was cut short is taken up again by itself. */
export const resumesMax = 3

/** Whether what a crash cut short is to be taken up again without anybody's doing. */
export const takesUp = ({ state, onCrash, crashes }: Standing): boolean =>
  onCrash === 'resume' &&
  crashes > 0 &&
  crashes <= resumesMax &&
  (state === 'interrupted' || state === 'ready' || state === 'waiting')

/** What a session is from when it is not paused any more: what was cut short meanwhile shows now. */
export function unpaused(standing: Standing): SessionState {
  const { turn, handed, requests, crashes, keeper } = standing
  // A keeper that has come meanwhile knows nothing of a turn to take up.
  const isTakenUp = !keeper && takesUp({ ...standing, state: 'ready' })
  if (!turn && crashes > 0 && !isTakenUp) return 'interrupted'
  return requests > 0 ? 'waiting' : turn || handed ? 'working' : 'ready'
}

/** Whether a turn is done and its agent is not: it has prompts that came too late, and takes them up next by itself. */
export const leavesWork = ({ reason, left = [] }: Pick<EventBody<'turn.ended'>, 'reason' | 'left'>): boolean =>
  reason === 'done' && left.length > 0

const ended = new Set<SessionState>(['stopped', 'archived'])

/** Which open requests an event takes back, as nobody wants an answer to them any more: all of the session's, or those of the turn
 *  that it ends which nobody waits for. A turn that waits or was cut short may still need its answers, and so may one whose
 *  window died. */
export function takesBack(before: Standing, event: NewEvent): 'all' | readonly RequestId[] {
  switch (event.type) {
    case 'session.state':
      return ended.has(event.body.to) ? 'all' : []
    case 'turn.ended': {
      const { reason, tasks = 0 } = event.body
      const isOver = reason !== 'waiting' && reason !== 'interrupted' && reason !== 'crashed' && tasks === 0
      return isOver ? before.left : []
    }
    case 'request.opened':
      // A keeper that has not heard yet that its session was ended.
      return ended.has(before.state) ? [event.body.id] : []
    default:
      return []
  }
}

/** Where an event leaves a session, and why if it moves it. The daemon stores a `session.state` for each move,
 *  so that the last one of a log is the state. */
export function after(standing: Standing, event: NewEvent): { readonly standing: Standing; readonly why: string | null } {
  const to = (change: Partial<Standing>, why: string | null = null) => ({ standing: { ...standing, ...change }, why })
  /** Nothing that happens by itself brings back a session that a person ended, nor one that is paused: its windows still are, and
   *  whoever paused it decides how it goes on. */
  const live = (state: SessionState): SessionState =>
    ended.has(standing.state) || standing.state === 'paused' ? standing.state : state
  /** What a crash interrupted or a failure ended stays so until somebody goes on with it: a keeper alone does not. */
  const unlessBroken = (state: SessionState): SessionState =>
    standing.state === 'interrupted' || standing.state === 'failed' ? standing.state : live(state)
  /** What a session without a turn is. */
  const resting = (requests = standing.requests): SessionState => (requests > 0 ? 'waiting' : 'ready')
  const running = (requests = standing.requests): SessionState => (requests > 0 ? 'waiting' : 'working')
  const crashed = (why: string) => {
    const crashes = standing.crashes + 1
    const enough = `: taken up again ${resumesMax} times in a row and cut short each time, it waits for the next prompt`
    const givenUp = standing.onCrash === 'resume' && standing.crashes === resumesMax
    return to(
      { turn: false, handed: false, asked: [], left: [], crashes, state: live('interrupted') },
      givenUp ? `${why}${enough}` : why,
    )
  }
  switch (event.type) {
    case 'session.created':
      return to({ onCrash: event.body.on_crash ?? 'wait' })
    case 'session.state': {
      // What is paused shows later what cut it short from here on; a crash before that was somebody's to decide on, and they have.
      const isOver = ended.has(event.body.to) || (event.body.to === 'paused' && !takesUp(standing))
      return to({ state: event.body.to, ...(isOver ? { crashes: 0 } : {}) }, event.body.why)
    }
    case 'prompt.queued':
      // What the house sends by itself, because a request was over that nobody answered, is nobody's decision to go on.
      return to(event.body.door === house.door ? {} : { crashes: 0 })
    case 'prompt':
      // From here on the agent has work, also before it says that it has begun.
      return standing.turn ? to({ handed: false }) : to({ handed: true, state: live(running()) })
    case 'keeper.started':
      return to({ keeper: true, state: standing.turn ? live(running()) : unlessBroken(resting()) })
    case 'turn.started':
      return to({ turn: true, handed: false, asked: [], left: [], state: live(running()) })
    case 'turn.ended': {
      const { reason, why, left = [] } = event.body
      if (reason === 'crashed') return crashed(why ?? '')
      const handed = left.length > 0
      const state = leavesWork(event.body) ? running() : resting()
      return to({ turn: false, handed, asked: [], left: [], crashes: 0, state: live(state) }, reason === 'done' ? null : why)
    }
    case 'request.opened': {
      const asked = standing.turn ? [...standing.asked, event.body.id] : standing.asked
      return to({ requests: standing.requests + 1, asked, state: standing.turn ? live('waiting') : unlessBroken('waiting') })
    }
    case 'request.left':
      return to(standing.asked.includes(event.body.id) ? { left: [...new Set([...standing.left, event.body.id])] } : {})
    case 'request.answered': {
      const requests = Math.max(0, standing.requests - 1)
      const others = (ids: readonly RequestId[]) => ids.filter((id) => id !== event.body.id)
      return to({
        requests,
        asked: others(standing.asked),
        left: others(standing.left),
        state: standing.turn ? live(running(requests)) : unlessBroken(resting(requests)),
      })
    }
    case 'keeper.left': {
      const stays = standing.state === 'interrupted' || standing.state === 'failed' || standing.state === 'paused'
      const state = !stays && event.body.failed ? live('failed') : unlessBroken(resting())
      const crashes = stays ? standing.crashes : 0
      return to(
        { keeper: false, turn: false, handed: false, asked: [], left: [], crashes, state },
        event.body.failed ? event.body.why : null,
      )
    }
    case 'keeper.lost': {
      const cut = standing.turn || standing.handed || standing.state === 'creating' || takesUp(standing)
      const { standing: rest, why } = cut ? crashed(event.body.why) : to({ asked: [], left: [], state: unlessBroken(resting()) })
      return { standing: { ...rest, keeper: false }, why }
    }
    default:
      return to({})
  }
}
