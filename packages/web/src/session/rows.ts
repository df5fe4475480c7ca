import type { Item, PromptItem, ToolItem, WordsItem } from '../log/fold.ts'
import type { Saying } from '../log/saying.ts'
import type { Waiting } from '../outbox/outbox.ts'

/** One row of the conversation as it is shown. */
export type Row =
  | { readonly key: string; readonly kind: 'item'; readonly item: Item }
  | { readonly key: string; readonly kind: 'waiting'; readonly waiting: Waiting }
  | { readonly key: string; readonly kind: 'busy' }

/** What was said, what is being said, and what is yet to be given to the agent, in this order. A block keeps its key when it becomes an
 *  event, so that it does not leave the page and come back. */
export function rowsOf(items: readonly Item[], saying: Saying, waiting: readonly Waiting[], working: boolean): readonly Row[] {
  const isQueued = (item: Item): item is PromptItem => item.kind === 'prompt' && item.queued !== null
  const said = items.filter((item) => !isQueued(item))
  const known = new Set(items.map(({ key }) => key))
  const at = said.at(-1)?.at ?? 0
  const seq = said.at(-1)?.seq ?? 0
  const wordsOf = ({ block, kind, text }: Saying['blocks'][number]): WordsItem => ({
    key: `block ${block}`,
    seq,
    at,
    kind,
    text,
    cut: null,
    growing: true,
  })
  const fresh = saying.blocks.filter(({ text }) => text !== '')
  const growing = fresh.filter(({ block, parent }) => parent === null && !known.has(`block ${block}`)).map(wordsOf)
  const inThreads = Map.groupBy(
    fresh.filter(({ parent }) => parent !== null),
    ({ parent }) => parent,
  )
  /** What a sub-agent is saying stands at the end of its thread. */
  const withThread = (item: Item): Item => {
    if (item.kind !== 'tool') return item
    const blocks = inThreads.get(item.call)?.filter(({ block }) => !item.thread.some(({ key }) => key === `block ${block}`))
    const thread = item.thread.map(withThread)
    const same = thread.every((one, index) => one === item.thread[index])
    return blocks === undefined && same
      ? item
      : ({ ...item, thread: [...thread, ...(blocks ?? []).map(wordsOf)] } satisfies ToolItem)
  }
  const row = (item: Item): Row => ({ key: item.key, kind: 'item', item })
  const last = growing.at(-1) ?? said.at(-1)
  // Between two steps there would be nothing to see of a turn that runs.
  const quiet = working && last !== undefined && !(last.kind === 'text' && growing.length > 0) && !isWaiting(last)
  return [
    ...(inThreads.size === 0 ? said : said.map(withThread)).map(row),
    ...growing.map(row),
    ...(quiet ? [{ key: 'busy', kind: 'busy' } as const] : []),
    ...items.filter(isQueued).map(row),
    ...waiting
      .filter(({ id }) => id === null || !known.has(`prompt ${id}`))
      .map((one): Row => ({ key: one.id === null ? `waiting ${one.key}` : `prompt ${one.id}`, kind: 'waiting', waiting: one })),
  ]
}

const isWaiting = (item: Item): boolean => item.kind === 'request' && item.answer === null
