import type { ServerResponse } from 'node:http'
import { drained } from './drained.ts'
import { type Reply, reply } from './reply.ts'

const headers = { 'content-type': 'application/jsonl', 'cache-control': 'no-store' } as const

/** Lines of JSON, as fast as the reader takes them. An answer that cannot be finished is cut off: its last line is missing. */
export function lineStream(lines: AsyncIterable<string>, end: AbortController, log: (message: string) => void): Reply {
  return reply({ headers, pour: (response) => void pour(response) })

  async function pour(response: ServerResponse): Promise<void> {
    const cutOff = () => response.destroy()
    end.signal.addEventListener('abort', cutOff, { once: true })
    try {
      for await (const line of lines) {
        if (end.signal.aborted) return void cutOff()
        if (!response.write(`${line}\n`)) await drained(response, end)
      }
      response.end()
    } catch (error) {
      log(`An export could not be finished: ${error instanceof Error ? error.message : String(error)}`)
      response.destroy()
    } finally {
      end.signal.removeEventListener('abort', cutOff)
      end.abort()
    }
  }
}
