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
  /** Puts these in place of all that was added. Whoever dies over it has left the ones or the others. */
  replace(lines: string): void
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
/** By how much more than it must hold the file of what is being said may grow, beyond the same again. */
const sayingSpareChars = 4 * 1024 * 1024

/** Resolves when the keeper stands: a daemon can attach to it. */
export async function tend({ disk, saying, wire, pid, ...options }: TendOptions): Promise<Tended> {
  const { start, clock } = options
  const { session, folder } = start.place
  const outbox = await openOutbox({ disk, now: clock.now, segmentBytes })
  let said = false
  /** In the file, and of those what was open when it was last written anew. */
  let [fileChars, keptChars] = [0, 0]
  function note(line: string): void {
    said = true
    saying.add(line)
    fileChars += line.length
    if (fileChars <= 2 * keptChars + sayingSpareChars) return
    const lines = one
      .saying()
      .map((frame) => `${JSON.stringify(frame)}\n`)
      .join('')
    saying.replace(lines)
    fileChars = keptChars = lines.length
  }
  let show: (frame: LiveFrame) => void = () => {}
  const one: Keeper = keeper({
    ...options,
    outbox,
    live(frame) {
      // Before anybody sees it.
      if (frame.type !== 'tool.progress') note(`${JSON.stringify(frame)}\n`)
      show(frame)
    },
    stored(event) {
      if (!said) return
      if (one.saying().length === 0) {
        saying.empty()
        said = false
        fileChars = keptChars = 0
      } else if (event.type === 'text' || event.type === 'thinking') note(storedLine(event.body.block))
    },
  })
  const source = await listenAsSource({
    wire,
    pid,
    socketPath: `${folder}/keeper.sock`,
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
