import type { Clock } from '@anchorhold/link/clock'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { Rung } from '@anchorhold/protocol/rungs'
import type { Prepared } from './launch.ts'
import type { User } from './spare-keepers.ts'

/** How many keepers of a rung stand ready, their cells started, before anybody asks. */
export type Pool = {
  /** So many keepers at least, busy ones included. */
  readonly min: number
  readonly max: number
  /** A cell that nobody took for so long is given up, but for `min`. */
  readonly idleMs: number
  /** One more is started when this part of them is busy. */
  readonly scaleUpThreshold: number
}

/** A session to be: its id, its user and its folders are settled, and its cell stands. */
export type ReadyCell = { readonly session: SessionId; readonly runAs: User | null; readonly rung: Rung; readonly since: number }

/** A ready cell as it is now, with what is wrong with it. */
export type SeenReadyCell = ReadyCell & { readonly trouble: string | null }

/** Cells that wait for sessions, a pool for each rung that has one. */
export interface ReadyCells {
  readonly waiting: readonly SeenReadyCell[]
  /** The one that has waited longest and is well; null when none of that rung waits. */
  claim(rung: Rung): ReadyCell | null
  /** The process of a claimed cell; null for a session that has none. */
  take(session: SessionId): Prepared | null
  /** Starts and gives up as the pools say. */
  adjust(): void
  /** Gives every cell up, and resolves when nothing of them is left. */
  discard(): Promise<void>
}

export type ReadyCellsOptions = {
  readonly pools: Readonly<Partial<Record<Rung, Pool>>>
  readonly clock: Clock
  /** How many keepers of a rung tend a session now. */
  readonly busy: (rung: Rung) => number
  readonly make: (rung: Rung) => { readonly session: SessionId; readonly runAs: User | null; readonly prepared: Prepared }
  /** Removes what was made for a cell whose process has ended and that no session has come to. */
  readonly clear: (session: SessionId) => Promise<void>
  readonly log: (message: string) => void
}

type Made = { readonly cell: ReadyCell; readonly prepared: Prepared }

const lookMs = 5000
/** After a cell that did not start, the next one is tried so much later: each time twice as long, up to the most. */
const [againMs, againMaxMs] = [10_000, 600_000]
/** How long a claimed cell waits for its session's keeper to be started. */
const claimedMs = 60_000

export function readyCells({ pools, clock, busy, make, clear, log }: ReadyCellsOptions): ReadyCells {
  const waiting = new Set<Made>()
  const claimed = new Map<SessionId, Made>()
  /** What went wrong last in a pool, until one of its cells stands. */
  const failed = new Map<Rung, { readonly cell: SeenReadyCell; readonly times: number; readonly againAt: number }>()
  let isOver = false
  let stop = () => {}

  async function giveUp(one: Made): Promise<void> {
    waiting.delete(one)
    claimed.delete(one.cell.session)
    // Told to end, it ends its cell first.
    one.prepared.dismiss()
    await one.prepared.gone
    // What cannot be removed now is removed when a daemon starts.
    await clear(one.cell.session).catch((error: unknown) => log(`a ready cell: ${String(error)}`))
  }

  function tryLater(cell: SeenReadyCell): void {
    const times = (failed.get(cell.rung)?.times ?? 0) + 1
    const againAt = clock.elapsed() + Math.min(againMs * 2 ** (times - 1), againMaxMs)
    failed.set(cell.rung, { cell, times, againAt })
  }

  /** Null where there is no room for it, as on a full disk. */
  function makeOne(rung: Rung): Made | null {
    try {
      const { session, runAs, prepared } = make(rung)
      return { cell: { session, runAs, rung, since: clock.elapsed() }, prepared }
    } catch (error) {
      log(`a ready cell of rung ${rung}: ${String(error)}`)
      return null
    }
  }

  function adjust(): void {
    if (isOver) return
    for (const one of [...waiting]) {
      const trouble = troubleOf(one)
      if (one.prepared.holds === 'ready') failed.delete(one.cell.rung)
      if (trouble === null) continue
      void giveUp(one)
      // One that was ended from outside says nothing about the next.
      if (typeof one.prepared.holds === 'object') tryLater({ ...one.cell, trouble })
    }
    for (const [rung, pool] of Object.entries(pools) as [Rung, Pool][]) {
      const idle = [...waiting].filter(({ cell }) => cell.rung === rung)
      const working = busy(rung) + [...claimed.values()].filter(({ cell }) => cell.rung === rung).length
      const all = working + idle.length
      const isStretched = all > 0 && working / all >= pool.scaleUpThreshold && all < pool.max
      const mayTry = clock.elapsed() >= (failed.get(rung)?.againAt ?? 0)
      for (let more = mayTry ? Math.max(pool.min - all, isStretched ? 1 : 0) : 0; more > 0; more--) {
        const one = makeOne(rung)
        if (one === null) break
        waiting.add(one)
      }
      const surplus = idle.slice(0, Math.max(0, all - pool.min))
      for (const one of surplus) if (clock.elapsed() - one.cell.since >= pool.idleMs) void giveUp(one)
    }
    stop()
    if (Object.keys(pools).length > 0) stop = clock.after(lookMs, adjust)
  }

  return {
    get waiting() {
      return [
        ...[...waiting].map((one) => ({ ...one.cell, trouble: troubleOf(one) })),
        ...[...failed.values()].map(({ cell }) => cell),
      ]
    },
    claim(rung) {
      const one = [...waiting].find(
        ({ cell, prepared }) => cell.rung === rung && prepared.alive && typeof prepared.holds !== 'object',
      )
      if (one === undefined) return null
      waiting.delete(one)
      claimed.set(one.cell.session, one)
      clock.after(claimedMs, () => void (claimed.get(one.cell.session) === one && giveUp(one)))
      return one.cell
    },
    take(session) {
      const one = claimed.get(session)
      claimed.delete(session)
      return one?.prepared.alive ? one.prepared : null
    },
    adjust,
    async discard() {
      isOver = true
      stop()
      await Promise.all([...waiting, ...claimed.values()].map(giveUp))
    },
  }
}

function troubleOf({ prepared }: Made): string | null {
  if (typeof prepared.holds === 'object') return prepared.holds.trouble
  return prepared.alive ? null : 'its keeper has ended'
}
