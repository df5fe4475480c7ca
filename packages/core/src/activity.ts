import type { Event } from '@anchorhold/protocol/events'

/** What comes when nobody does anything any more: a keeper that leaves for want of work, and what it was still told by the window. */
const housekeeping: ReadonlySet<Event['type']> = new Set(['keeper.left', 'net'])

/** Whether a session was active when this came: the newest of these says since when it rests. */
export const isActivity = ({ type }: Pick<Event, 'type'>): boolean => !housekeeping.has(type)
