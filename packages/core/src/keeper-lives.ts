/** What a session has of a keeper, as the daemon knows it. One at a time. */
export type KeeperLife = 'none' | 'finding' | 'starting' | 'live' | 'leaving' | 'unread'

/** What happens to it. */
export type KeeperEvent = 'sought' | 'wanted' | 'attached' | 'closed' | 'taken_in' | 'unreadable' | 'not_started'

type Row = {
  readonly meaning: string
  /** Whether a process of it may be there, which the session's next one waits for. */
  readonly isUnderWay: boolean
  readonly on: Partial<Record<KeeperEvent, KeeperLife>>
}

/** Invariant: a keeper is started from `none` alone. What one before it had handed to its agent is known from what that one left, so
 *  nothing leads from `unread` to `starting` but having read it. */
export const keeperLives = {
  none: {
    meaning: 'it has none, and all that the last one left is stored',
    isUnderWay: false,
    on: { sought: 'finding', wanted: 'starting' },
  },
  finding: {
    meaning: 'one may be there, of the daemon before this one; where there is none, what it left is taken in',
    isUnderWay: true,
    on: { attached: 'live', taken_in: 'none', unreadable: 'unread' },
  },
  starting: {
    meaning: 'one is being started',
    isUnderWay: true,
    on: { attached: 'live', not_started: 'none', unreadable: 'unread' },
  },
  live: { meaning: 'it answers', isUnderWay: true, on: { closed: 'leaving' } },
  leaving: {
    meaning: 'it has let go of the link; when it has ended, what it left is taken in',
    isUnderWay: true,
    on: { taken_in: 'none', unreadable: 'unread' },
  },
  unread: { meaning: 'it is gone, and what it left cannot be read', isUnderWay: false, on: { sought: 'finding' } },
} as const satisfies Record<KeeperLife, Row>

/** What a life becomes; null where that cannot happen to it. */
export function afterKeeper(life: KeeperLife, event: KeeperEvent): KeeperLife | null {
  const { on }: Row = keeperLives[life]
  return on[event] ?? null
}
