import { type OpenBlocks, openBlocks } from '@anchorhold/core/open-blocks'
import type { Outbox } from '@anchorhold/link/outbox'
import type { BlockId, LiveFrame, NewEvent } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { OutboxRecord } from '@anchorhold/protocol/link'

/** What a session has to tell. Invariant: nothing is told after `keeper.left`. */
export interface Journal {
  /** Resolves when the event is on the disk. Events go out in the order of the calls. */
  write(event: NewEvent, after?: OutboxRecord['after']): Promise<void>
  flush(): Promise<void>
  /** Shows what is being said and has not been said to its end. */
  live(frame: LiveFrame): void
  /** What has been shown of blocks that are not finished. */
  saying(): ReturnType<OpenBlocks['frames']>
  /** Stores what was shown and is cut off, as far as it went: these blocks, or all. */
  closeBlocks(these?: ReadonlySet<BlockId>): Promise<void>
}

export type JournalOptions = {
  readonly session: SessionId
  readonly outbox: Outbox
  readonly live: (frame: LiveFrame) => void
  /** Told of every event once it is in the outbox. */
  readonly stored: (event: NewEvent) => void
  readonly die: (error: unknown) => void
}

/** A disk that cannot be written ends the keeper: what it does from here on could not be told. */
export function journal({ session, outbox, live, stored, die }: JournalOptions): Journal {
  const said = openBlocks()
  let over = false

  async function flush(): Promise<void> {
    try {
      await outbox.flush()
    } catch (error) {
      die(error)
      await new Promise<never>(() => {})
    }
  }
  function write(event: NewEvent, after?: OutboxRecord['after']): Promise<void> {
    if (over) return Promise.resolve()
    over = event.type === 'keeper.left'
    try {
      outbox.append(session, event, after)
      said.stored(event)
      stored(event)
    } catch (error) {
      die(error)
    }
    return flush()
  }
  return {
    write,
    flush,
    live(frame) {
      said.live(frame)
      live(frame)
    },
    saying: said.frames,
    async closeBlocks(these) {
      for (const { type, block, text, parent } of said.frames())
        if (these?.has(block) !== false)
          await write({ type: type === 'text.delta' ? 'text' : 'thinking', body: { block, text, parent, partial: true } })
    },
  }
}
