import type { Event, EventBody, EventType } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'

export const session = 'ses_0000000000000001' as SessionId

/** Events of a session, numbered from one. */
export const logOf = (...list: readonly { [T in EventType]: readonly [T, EventBody<T>] }[EventType][]): Event[] =>
  list.map(([type, body], index) => ({ pos: index + 1, seq: index + 1, session, at: 1000 + index, type, body }) as Event)

/** So many events that say their own number. */
export const numbered = (from: number, to: number): Event[] =>
  Array.from({ length: to - from + 1 }, (_, index) => ({
    pos: from + index,
    seq: from + index,
    session,
    at: 1,
    type: 'notice',
    body: { level: 'info', code: 'test', message: String(from + index) },
  }))
