import type { FetchAnswer } from '@anchorhold/protocol/net-calls'
import { slownessOf } from '@anchorhold/protocol/rungs'
import { z } from 'zod'
import type { Cell } from '../cells/cell.ts'
import { outputOf } from '../cells/output-of.ts'

const PageText = z.object({ title: z.string(), text: z.string(), truncated: z.boolean() }).nullable()
export type PageText = z.infer<typeof PageText>

/** Paths as the cell sees them. */
export type Reader = { readonly cell: Cell; readonly node: string; readonly program: string; readonly cwd: string }

/** What an agent is shown of a page. */
export const pageCharsMax = 60_000
const readMs = 15_000
const saidBytesMax = 1024 * 1024
const memoryMb = 256

/** Has the text of a page taken out inside the cell: whoever wrote the page chose what the parser meets, and there it meets it where
 *  nothing is to be had. Null when the page has no text. What comes back is what anybody in the cell might say. */
export async function readPage(
  page: Extract<FetchAnswer, { answer: 'page' }>,
  { cell, node, program, cwd }: Reader,
): Promise<PageText> {
  const child = cell.spawn([node, `--max-old-space-size=${memoryMb}`, program], { env: {}, cwd })
  child.stdin.write(`${JSON.stringify({ url: page.url, type: page.type, charsMax: pageCharsMax })}\n`)
  child.stdin.end(Buffer.from(page.body, 'base64'))
  const { text } = await outputOf(child, { bytesMax: saidBytesMax, withinMs: readMs * slownessOf(cell.limits) })
  return PageText.parse(JSON.parse(text))
}
