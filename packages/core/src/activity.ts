import type { EventBody, NewEvent } from '@anchorhold/protocol/events'

/** What comes when nobody does anything any more: a keeper that leaves for want of work or dies over it, and what it was still told by the
 *  window. One that dies in the middle of a turn interrupts the session, and that counts. */
const housekeeping: ReadonlySet<NewEvent['type']> = new Set(['keeper.left', 'keeper.lost', 'net'])

/** Whether a session was active when this came: the newest of these says since when it rests. */
export const isActivity = (event: NewEvent): boolean =>
  !housekeeping.has(event.type) && !(event.type === 'session.changed' && isRenaming(event.body))

/** Who only gives it another name tidies up, and did not work on it. */
const isRenaming = ({ name, actor: _actor, door: _door, ...more }: EventBody<'session.changed'>): boolean =>
  name !== undefined && Object.values(more).every((value) => value === undefined)
