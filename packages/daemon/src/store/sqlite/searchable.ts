import type { EventType, NewEvent } from '@anchorhold/protocol/events'

/** What was indexed before there was a `search_backfill`. */
const always: ReadonlySet<EventType> = new Set(['prompt.queued', 'text', 'tool.started', 'tool.finished', 'session.created'])
const since = [
  'session.changed',
  'session.state',
  'thinking',
  'file.uploaded',
  'workspace.at',
  'request.opened',
  'request.answered',
  'decision',
  'net',
  'turn.ended',
  'keeper.left',
  'keeper.lost',
  'notice',
] as const satisfies readonly EventType[]

/** Kinds of events that full-text search looks into, and those of them that an older index has none of. */
export const searchedTypes: readonly EventType[] = [...always, ...since]
export const backfilledTypes: readonly EventType[] = since

/** What full-text search finds of an event: words that somebody could have seen. */
export function searchable(event: NewEvent): string | null {
  switch (event.type) {
    case 'prompt.queued':
    case 'text':
    case 'thinking':
      return event.body.text
    case 'tool.started':
      return `${event.body.tool} ${typeof event.body.input === 'string' ? event.body.input : JSON.stringify(event.body.input)}`
    case 'tool.finished':
      return event.body.output
    case 'session.created':
      return event.body.name
    case 'session.changed':
      return event.body.name ?? null
    case 'session.state':
    case 'turn.ended':
    case 'keeper.left':
    case 'keeper.lost':
      return event.body.why
    case 'file.uploaded':
      return event.body.path
    case 'workspace.at':
      return event.body.branch
    case 'request.opened': {
      const { action, why = '' } = event.body
      // A tool call is found by itself.
      if (action.kind === 'tool') return why
      return `${words(action)} ${why}`
    }
    case 'request.answered': {
      const { decision, reason = '', answers = {} } = event.body.answer
      return `${decision} ${reason} ${words(Object.values(answers))}`
    }
    case 'decision': {
      const { effect, by, action } = event.body
      return effect === 'deny' ? `denied ${by} ${words(action ?? [])}` : null
    }
    case 'net':
      return event.body.host === null ? null : `${event.body.host} ${event.body.why ?? ''}`
    case 'notice':
      return event.body.message
    default:
      return null
  }
}

/** Every text in a value, without what only gives it shape. */
function words(value: unknown): string {
  if (typeof value === 'string') return value
  return typeof value === 'object' && value !== null ? Object.values(value).map(words).join(' ') : ''
}
