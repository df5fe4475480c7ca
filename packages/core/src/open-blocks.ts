import { type BlockId, LiveFrame, type NewEvent } from '@anchorhold/protocol/events'

type Delta = Extract<LiveFrame, { block: BlockId }>

/** What is being said in a session and not yet stored: the text of each open block so far. */
export interface OpenBlocks {
  live(frame: LiveFrame): void
  stored(event: NewEvent): void
  /** Each open block as one delta from its beginning. */
  frames(): readonly Delta[]
}

export function openBlocks(): OpenBlocks {
  const blocks = new Map<BlockId, Delta>()
  return {
    live(frame) {
      if (frame.type === 'tool.progress') return
      const said = blocks.get(frame.block)?.text ?? ''
      // One that begins beyond what is known would leave a hole; one that ends before it says nothing new.
      if (frame.offset > said.length || frame.offset + frame.text.length <= said.length) return
      blocks.set(frame.block, { ...frame, offset: 0, text: said.slice(0, frame.offset) + frame.text })
    },
    stored(event) {
      if (event.type === 'text' || event.type === 'thinking') blocks.delete(event.body.block)
      // Not the end of a turn: what that cuts off is stored before it, and the next turn may have begun to speak.
      else if (event.type === 'keeper.lost' || event.type === 'keeper.left') blocks.clear()
    },
    frames: () => [...blocks.values()],
  }
}

/** In the file of what an agent is saying, a line a delta; and this one for a block that is in the outbox, when others are still open. */
export const storedLine = (block: BlockId): string => `${JSON.stringify({ stored: block })}\n`

/** What the file says and no outbox has. The keeper that wrote it has died: the last line may be cut off. */
export function saidIn(file: string): readonly Delta[] {
  const lines = file.split('\n').flatMap((line) => {
    try {
      return [JSON.parse(line) as unknown]
    } catch {
      return []
    }
  })
  const stored = new Set(lines.map((line) => (line as { stored?: unknown } | null)?.stored))
  return lines.flatMap((line) => {
    const { data: frame } = LiveFrame.safeParse(line)
    return frame === undefined || frame.type === 'tool.progress' || stored.has(frame.block) ? [] : [frame]
  })
}
