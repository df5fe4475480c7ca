import type { BlockId, LiveFrame, NewEvent } from '@anchorhold/protocol/events'

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
      else if (event.type === 'turn.ended' || event.type === 'keeper.lost' || event.type === 'keeper.left') blocks.clear()
    },
    frames: () => [...blocks.values()],
  }
}
