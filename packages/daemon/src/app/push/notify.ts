import { type Actor, may } from '@anchorhold/core/actors'
import { type Notice, noticeOf } from '@anchorhold/core/notification'
import { printableLine } from '@anchorhold/core/printable'
import { leavesWork } from '@anchorhold/core/session-states'
import type { Event } from '@anchorhold/protocol/events'
import type { RequestId, SessionId } from '@anchorhold/protocol/ids'
import type { TurnEnd } from '@anchorhold/protocol/sessions'
import type { PushDeviceRow } from '../../store/store.ts'
import { dangerOf } from '../requests/danger.ts'
import type { Judges, Parts } from '../parts.ts'

/** Tells people's devices when somebody is needed, or when a turn ended that nobody watched; and of nothing else. Each is told at
 *  most once: what a daemon did not get to say before it died is in the inbox. */
export interface Notifier {
  heard(events: readonly Event[]): void
}

const nameCharsMax = 80
/** So many messages are under way at once; more than that tell nobody anything. */
const underWayMax = 100

/** How a turn's end is told of; null where a person ended it, or a request tells of it. */
const ends = {
  done: 'is done',
  budget: 'stopped: its budget is used up',
  breaker: 'stopped: it went in circles',
  error: 'stopped by an error',
  crashed: 'was interrupted',
  interrupted: null,
  waiting: null,
} as const satisfies Record<TurnEnd, string | null>

export function notifier(parts: Judges & Pick<Parts, 'log' | 'now' | 'presence' | 'push'>): Notifier {
  let underWay = 0

  function tell(devices: readonly PushDeviceRow[], message: Record<string, unknown>, topic: string): void {
    const { push, store } = parts
    for (const device of devices) {
      if (underWay >= underWayMax) return
      underWay++
      void push
        .send(device, JSON.stringify(message), topic)
        .then((sent) => {
          if (sent === 'gone') store.push.remove(device.id)
        })
        // It is found to be gone again the next time.
        .catch((error: unknown) => parts.log(error instanceof Error ? error.message : String(error)))
        .finally(() => underWay--)
    }
  }

  function tellRequest(id: RequestId): void {
    const { store } = parts
    const request = store.requests.get(id)
    if (request === null || request.answer !== null) return
    const ties = store.people.ties(request.session)
    const notice: Notice = noticeOf(request.action, named(request.session_name))
    const mayAllow = notice.whole && dangerOf(parts, request, 'once') === null
    const message = {
      kind: 'request',
      request: id,
      session: request.session,
      title: notice.title,
      body: notice.text,
      actions:
        request.action.kind === 'question' || request.action.kind === 'plan' ? [] : mayAllow ? ['allow', 'deny'] : ['deny'],
    }
    const devices = devicesOf((actor) => ties !== null && may(actor, 'session.answer', ties))
    tell(devices, message, id)
  }

  function tellEnd(session: SessionId, reason: TurnEnd): void {
    const how = ends[reason]
    const { store, presence } = parts
    const row = store.sessions.get(session)
    if (how === null || row === null || presence.isWatched(row.ownerId, session)) return
    const message = { kind: 'turn', session, title: `${named(row.name)} ${how}`, body: '', actions: [] }
    tell(
      devicesOf((actor) => actor.user === row.ownerId),
      message,
      session,
    )
  }

  /** The devices of those who fit, as long as the login lasts that each was added with. */
  function devicesOf(fits: (actor: Actor) => boolean): readonly PushDeviceRow[] {
    const { store, now } = parts
    return store.push.all().filter((device) => {
      const token = store.tokens.get(device.token)
      const user = store.people.get(device.user)
      if (token === null || user === null || (token.expires_at !== null && token.expires_at <= now())) {
        store.push.remove(device.id)
        return false
      }
      return fits({ kind: user.role, user: user.id, name: user.name, door: 'push' })
    })
  }

  return {
    heard(events) {
      const told = events.filter(({ type }) => type === 'request.opened' || type === 'turn.ended')
      if (told.length === 0) return
      try {
        if (parts.store.push.all().length === 0) return
        for (const event of told) {
          if (event.type === 'request.opened') tellRequest(event.body.id)
          if (event.type === 'turn.ended' && !leavesWork(event.body)) tellEnd(event.session, event.body.reason)
        }
      } catch (error) {
        parts.log(`push: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
      }
    },
  }
}

const named = (name: string) => {
  const line = printableLine(name)
  return `“${line.length > nameCharsMax ? `${line.slice(0, nameCharsMax)}…` : line}”`
}
