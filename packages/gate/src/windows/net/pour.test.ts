import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, createConnection, createServer, type Socket } from 'node:net'
import { setImmediate as immediate } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { nextBytes } from './first-bytes.ts'
import { join } from './join.ts'
import { pourable } from './pour.ts'

const digest = (chunks: readonly Buffer[]) => createHash('sha256').update(Buffer.concat(chunks)).digest('hex')

async function listening(serve: (socket: Socket) => void): Promise<number> {
  const server = createServer({ allowHalfOpen: true }, (socket) => serve(socket.on('error', () => {})))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return (server.address() as AddressInfo).port
}
const local = (port: number) => ({ host: '127.0.0.1', port, allowHalfOpen: true })

/** A client of something that leads every connection to `origin`. */
async function throughJoin(origin: number, ahead: (upstream: Socket) => Promise<void> = async () => {}): Promise<Socket> {
  const port = await listening(async (client) => {
    client.pause()
    const upstream = pourable(local(origin))
    await once(upstream, 'connect')
    await ahead(upstream)
    join(client, upstream)
  })
  const client = createConnection(local(port))
  onTestFinished(() => void client.destroy())
  return client
}

/** Reads to the end, and rests before every so manieth piece. */
async function read(client: Socket, restEvery: number): Promise<Buffer[]> {
  const chunks: Buffer[] = []
  for await (const chunk of client) {
    chunks.push(chunk as Buffer)
    if (chunks.length % restEvery === 0) for (let turn = 0; turn < 10; turn++) await immediate()
  }
  return chunks
}

test.each([
  ['in small pieces', 700, 4000, Infinity],
  ['in large ones', 40, 1_500_000, Infinity],
  ['in large ones, to somebody slow', 60, 1_500_000, 1],
])('what is poured %s arrives as it was sent, and the end of it', async (_, count, size, restEvery) => {
  const sent = Array.from({ length: count }, (_, n) => randomBytes(1 + ((n * 7919) % size)))
  const origin = await listening(async (socket) => {
    for (const chunk of sent) if (!socket.write(chunk)) await once(socket, 'drain')
    socket.end()
  })
  expect(digest(await read(await throughJoin(origin), restEvery))).toBe(digest(sent))
})

test('what was looked at before comes first, and what the client says goes on after the other side has ended', async () => {
  const heard: Buffer[] = []
  const { promise: over, resolve } = Promise.withResolvers<void>()
  const origin = await listening((socket) => {
    socket.end('first and second')
    socket.on('data', (chunk: Buffer) => void heard.push(chunk)).once('end', resolve)
  })
  const client = await throughJoin(origin, async (upstream) => {
    const next = nextBytes(upstream)
    expect(await next.read((seen) => (seen.length >= 5 ? seen.toString() : 'more'), AbortSignal.timeout(10_000))).toMatch(
      /^first/,
    )
    next.release()
  })
  expect(Buffer.concat(await read(client, 1)).toString()).toBe('first and second')
  client.end('still here')
  await over
  expect(Buffer.concat(heard).toString()).toBe('still here')
})

test('nothing is read for who does not take it', async () => {
  let written = 0
  const origin = await listening((socket) => {
    const chunk = Buffer.alloc(64 * 1024)
    const more = () => {
      while (socket.write(chunk)) written += chunk.length
      written += chunk.length
    }
    socket.on('drain', more)
    more()
  })
  const client = await throughJoin(origin)
  client.pause()
  await once(client, 'connect')
  // What the kernel and one buffer hold is all that gets away.
  for (let was = -1; was !== written;) {
    was = written
    for (let turn = 0; turn < 2000; turn++) await immediate()
  }
  expect(written).toBeGreaterThan(0)
  expect(written).toBeLessThan(64 * 1024 * 1024)
})
