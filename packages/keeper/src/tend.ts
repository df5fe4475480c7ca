import { storedLine } from '@anchorhold/core/open-blocks'
import type { Clock } from '@anchorhold/link/clock'
import type { Disk } from '@anchorhold/link/disk'
import { openOutbox } from '@anchorhold/link/outbox'
import { listenAsSource } from '@anchorhold/link/source'
import type { Wire } from '@anchorhold/link/wire'
import type { LiveFrame } from '@anchorhold/protocol/events'
import { keeper, type Keeper, type KeeperOptions } from './keeper.ts'

/** Where a keeper writes down what its agent is saying, a delta a line: should it die, that is all there is of it. While several speak at
 *  once (an agent and its sub-agents), it is never quite empty: a line says which blocks are stored. */
export interface SayingFile {
  add(line: string): void
  empty(): void
}

export type TendOptions = Omit<KeeperOptions, 'outbox' | 'live' | 'stored'> & {
  readonly disk: Disk
  readonly saying: SayingFile
  readonly wire: Wire
  readonly clock: Clock
  readonly pid: number
}

/** A session's keeper and its end of the link. */
export interface Tended extends Pick<Keeper, 'goDown'> {
  /** Resolves when the keeper has left and nothing of it is open any more. */
  readonly over: Promise<void>
}

/** The last segment stays when the session rests, so it is a small one: there may be thousands of sessions. */
const segmentBytes = 32 * 1024

/** Resolves when the keeper stands: a daemon can attach to it. */
export async function tend({ disk, saying, wire, pid, ...options }: TendOptions): Promise<Tended> {
  const { start, clock } = options
  const { session } = start
  const outbox = await openOutbox({ disk, now: clock.now, segmentBytes })
  let said = false
  let show: (frame: LiveFrame) => void = () => {}
  const one: Keeper = keeper({
    ...options,
    outbox,
    live(frame) {
      if (frame.type !== 'tool.progress') {
        // Before anybody sees it.
        saying.add(`${JSON.stringify(frame)}\n`)
        said = true
      }
      show(frame)
    },
    stored(event) {
      if (!said) return
      if (one.saying().length === 0) {
        saying.empty()
        said = false
      } else if (event.type === 'text' || event.type === 'thinking') saying.add(storedLine(event.body.block))
    },
  })
  const source = await listenAsSource({
    wire,
    pid,
    socketPath: `${start.folder}/keeper.sock`,
    source: `keeper/${session}`,
    outbox,
    handle: one.handle,
    saying: () => ({ session, frames: one.saying() }),
  })
  show = (frame) => source.live(session, frame)
  async function untilOver(): Promise<void> {
    await one.left
    await source[Symbol.asyncDispose]()
    await outbox.close()
  }
  return { goDown: one.goDown, over: untilOver() }
}
