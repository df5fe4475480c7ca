import { HostAction, type Pin } from '@anchorhold/protocol/actions'
import { createHash } from 'node:crypto'
import { chmod, readFile, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { z } from 'zod'
import type { SessionAuthority } from '../../authority.ts'

/** Stands for the window that runs commands of the host, where asking is tested: it asks for everything and does nothing. */
export type Edge = { close(): Promise<void> }

const Act = z.strictObject({
  action: HostAction,
  /** A file of the host's that the action would execute. */
  file: z.string().max(4096).optional(),
})
const bodyBytesMax = 1024 * 1024

export async function edgeWindow(folder: string, authority: Pick<SessionAuthority, 'judge'>): Promise<Edge> {
  const path = join(folder, 'edge.sock')
  const server = createServer((request, response) => {
    void act(request, response).catch((error: unknown) =>
      reply(response, 400, { error: error instanceof Error ? error.message : String(error) }),
    )
  })

  async function act(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method !== 'POST' || request.url !== '/act') return reply(response, 404, { error: 'POST /act' })
    const { action, file } = Act.parse(JSON.parse(await bodyOf(request)))
    const gone = new AbortController()
    response.once('close', () => gone.abort())
    /** What would be run: read once when it is asked for, so that nobody can put anything else in its place. */
    let copy: Buffer | null = null
    const pins = async (): Promise<readonly Pin[]> => {
      if (file === undefined) return []
      const now = await readFile(file).catch(() => {
        throw new Error(`"${file}" cannot be read, so it cannot be run`)
      })
      copy ??= now
      return [{ path: file, sha256: hashOf(now) }]
    }
    const verdict = await authority.judge(action, gone.signal, pins)
    const ran = verdict.allow && copy !== null ? { ran: hashOf(copy) } : {}
    reply(response, 200, verdict.allow ? { effect: 'allow', why: verdict.by, ...ran } : { effect: 'deny', why: verdict.why })
  }

  await rm(path, { force: true })
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(path, resolve))
  await chmod(path, 0o666)
  return {
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      server.closeAllConnections()
      await closed
      await rm(path, { force: true })
    },
  }
}

const hashOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > bodyBytesMax) throw new Error('The request is too large')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function reply(response: ServerResponse, status: number, value: unknown): void {
  if (!response.destroyed) response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
}
