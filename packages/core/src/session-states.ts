import type { NewEvent } from '@anchorhold/protocol/events'
import type { SessionState } from '@anchorhold/protocol/sessions'

/** What people and programs may ask of a session. */
export type Verb =
  | 'prompt'
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
  creating: { verbs: ['prompt', 'stop', 'archive', 'change'], meaning: 'being set up', mount: 'creating', abode: 'creating' },
  ready: {
    verbs: ['prompt', 'interrupt', 'pause', 'stop', 'fork', 'archive', 'change'],
    meaning: 'waits for a prompt',
    mount: 'idle',
    abode: 'running',
  },
  working: {
    verbs: ['prompt', 'interrupt', 'pause', 'stop', 'fork', 'archive', 'change', 'answer'],
    meaning: 'a turn runs',
    mount: 'working',
    abode: 'running',
  },
  waiting: {
    verbs: ['prompt', 'interrupt', 'pause', 'stop', 'fork', 'archive', 'change', 'answer'],
    meaning: 'a request is open',
    mount: 'pending_approval',
    abode: 'running',
  },
  paused: {
    verbs: ['prompt', 'interrupt', 'resume', 'stop', 'fork', 'archive', 'change', 'answer'],
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
    verbs: ['prompt', 'start', 'stop', 'fork', 'archive', 'change'],
    meaning: 'a crash cut it short; the next prompt goes on',
    mount: 'failed',
    abode: 'stopped',
  },
  failed: {
    verbs: ['prompt', 'start', 'stop', 'fork', 'archive', 'change'],
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
  readonly requests: number
  readonly keeper: boolean
}
export const atBirth: Standing = { state: 'creating', turn: false, requests: 0, keeper: false }

const ended = new Set<SessionState>(['stopped', 'archived'])

/** Where an event leaves a session, and why if it moves it. The daemon stores a `session.state` for each move,
 *  so that the last one of a log is the state. */
export function after(standing: Standing, event: NewEvent): { readonly standing: Standing; readonly why: string | null } {
  const to = (change: Partial<Standing>, why: string | null = null) => ({ standing: { ...standing, ...change }, why })
  /** A crash or a failure shows in every session that no person ended. */
  const broken = (state: 'interrupted' | 'failed'): SessionState => (ended.has(standing.state) ? standing.state : state)
  /** A live change never brings back a session that a person ended, nor one that is paused: its windows still are. */
  const live = (state: SessionState): SessionState =>
    ended.has(standing.state) || standing.state === 'paused' ? standing.state : state
  switch (event.type) {
    case 'session.state':
      return to({ state: event.body.to }, event.body.why)
    case 'keeper.started':
      return to({ keeper: true, state: live(standing.turn ? 'working' : 'ready') })
    case 'turn.started':
      return to({ turn: true, requests: 0, state: live('working') })
    case 'turn.ended': {
      const state = event.body.reason === 'crashed' ? broken('interrupted') : live('ready')
      return to({ turn: false, requests: 0, state }, event.body.reason === 'done' ? null : event.body.why)
    }
    case 'request.opened':
      return to({ requests: standing.requests + 1, state: live('waiting') })
    case 'request.answered': {
      const requests = Math.max(0, standing.requests - 1)
      const state = requests > 0 ? 'waiting' : standing.turn ? 'working' : 'ready'
      return to({ requests, state: live(state) })
    }
    case 'keeper.left': {
      // What a crash interrupted or a failure ended stays so until somebody goes on with it.
      const stays = standing.state === 'interrupted' || standing.state === 'failed'
      const state = stays ? standing.state : event.body.failed ? broken('failed') : live('ready')
      return to({ keeper: false, turn: false, requests: 0, state }, event.body.failed ? event.body.why : null)
    }
    case 'keeper.lost': {
      const cut = standing.turn || standing.state === 'creating'
      return to(
        {
          keeper: false,
          turn: false,
          requests: 0,
          state: cut ? broken('interrupted') : live('ready'),
        },
        cut ? event.body.why : null,
      )
    }
    default:
      return to({})
  }
}
