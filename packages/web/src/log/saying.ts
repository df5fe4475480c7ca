import type { Event, LiveFrame } from '@anchorhold/protocol/events'

/** What an agent is saying and doing right now, and what no event holds yet. */
export type Saying = {
  readonly blocks: readonly Block[]
  /** How long each running tool call has been at it. */
  readonly elapsedMs: Readonly<Record<string, number>>
}
type Block = {
  readonly block: string
  readonly kind: 'text' | 'thinking'
  readonly text: string
  readonly parent: string | null
}

export const silence: Saying = { blocks: [], elapsedMs: {} }

export function hearLive(saying: Saying, frame: LiveFrame): Saying {
  if (frame.type === 'tool.progress') return { ...saying, elapsedMs: { ...saying.elapsedMs, [frame.call]: frame.elapsed_ms } }
  // One of a kind that this page does not know yet.
  if (frame.type !== 'text.delta' && frame.type !== 'thinking.delta') return saying
  const at = saying.blocks.findIndex(({ block }) => block === frame.block)
  const said = saying.blocks[at]?.text ?? ''
  // One that begins beyond what is known would leave a hole; one that ends before it says nothing new.
  if (frame.offset > said.length || frame.offset + frame.text.length <= said.length) return saying
  const block: Block = {
    block: frame.block,
    kind: frame.type === 'text.delta' ? 'text' : 'thinking',
    text: said.slice(0, frame.offset) + frame.text,
    parent: frame.parent ?? null,
  }
  return { ...saying, blocks: at === -1 ? [...saying.blocks, block] : saying.blocks.with(at, block) }
}

/** A stored event ends what it is the whole of. */
export function hearStored(saying: Saying, event: Event): Saying {
  switch (event.type) {
    case 'text':
    case 'thinking': {
      const blocks = saying.blocks.filter(({ block }) => block !== event.body.block)
      return blocks.length === saying.blocks.length ? saying : { ...saying, blocks }
    }
    case 'tool.finished': {
      if (!(event.body.call in saying.elapsedMs)) return saying
      const { [event.body.call]: _, ...elapsedMs } = saying.elapsedMs
      return { ...saying, elapsedMs }
    }
    case 'turn.ended':
      // What it cut off was stored before it: a block that is open is the next turn's.
      return { ...saying, elapsedMs: {} }
    case 'keeper.lost':
    case 'keeper.left':
      return silence
    default:
      return saying
  }
}
