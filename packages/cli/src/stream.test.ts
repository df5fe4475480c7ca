import { client } from '@anchorhold/protocol/client'
import type { Event } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import type { Daemon } from './daemon.ts'
import { watchSession } from './stream.ts'

const session = 'ses_0000000000000000' as SessionId
const servers: Server[] = []
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
})

/** A daemon whose log has ten events, and that ends each stream as it is told. */
async function daemon(answer: (after: number, response: ServerResponse) => void) {
  const asked: number[] = []
  const server = createServer((request, response) => {
    const after = Number(new URL(request.url ?? '', 'http://x').searchParams.get('after'))
    asked.push(after)
    answer(after, response)
  })
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const options = { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
  return { asked, daemon: { options, api: client(options), url: options.url, pid: 1 } satisfies Daemon }
}
const eventOf = (seq: number): Event => ({ pos: seq, seq, session, at: 0, type: 'text', body: { block: 'b', text: `${seq}` } })
const message = (seq: number) => `id: ${seq}\nevent: text\ndata: ${JSON.stringify(eventOf(seq))}\n\n`
const begin = (response: ServerResponse) => response.writeHead(200, { 'content-type': 'text/event-stream' })

async function seqs(watching: AsyncIterable<unknown>, end: AbortController, last: number): Promise<number[]> {
  const seen: number[] = []
  for await (const one of watching as AsyncIterable<{ event?: Event }>) {
    if (one.event === undefined) continue
    seen.push(one.event.seq)
    if (one.event.seq === last) end.abort()
  }
  return seen
}
const oneToTen = Array.from({ length: 10 }, (_, index) => index + 1)

test('watchSession() sees every event once, however often its stream is cut', async () => {
  let times = 0
  const { daemon: found, asked } = await daemon((after, response) => {
    begin(response).write(': anchorhold\n\n')
    for (let seq = after + 1; seq <= Math.min(10, after + 3); seq++) response.write(message(seq))
    // Ended in order, cut between events, and cut in the middle of one.
    const how = times++ % 3
    if (how === 0) response.end()
    else if (how === 1) response.write('', () => response.destroy())
    else response.write(message(after + 4).slice(0, 20), () => response.destroy())
  })
  const end = new AbortController()
  const watching = watchSession(session, 0, async () => found, end.signal)
  expect(await seqs(watching, end, 10)).toEqual(oneToTen)
  expect(asked[0]).toBe(0)
  expect(asked.length).toBeGreaterThan(3)
})

test('watchSession() looks for the daemon again when it has gone, and goes on where it was', async () => {
  const first = await daemon((after, response) => void begin(response).end(message(after + 1)))
  const second = await daemon((after, response) => {
    begin(response)
    for (let seq = after + 1; seq <= 10; seq++) response.write(message(seq))
  })
  const found: (Daemon | null)[] = [first.daemon, null, second.daemon]
  const end = new AbortController()
  const watching = watchSession(session, 0, async () => found.shift() ?? null, end.signal)
  expect(await seqs(watching, end, 10)).toEqual(oneToTen)
  expect(second.asked).toEqual([1])
})

test('watchSession() shows what is being said without taking it for an event', async () => {
  const { daemon: found } = await daemon((_, response) => {
    const live = { session, type: 'text.delta', block: 'b', offset: 0, text: 'Hi' }
    begin(response).write(`event: text.delta\ndata: ${JSON.stringify(live)}\n\n${message(1)}`)
  })
  const end = new AbortController()
  const seen: string[] = []
  for await (const one of watchSession(session, 0, async () => found, end.signal)) {
    seen.push('live' in one ? one.live.type : one.event.type)
    if (seen.length === 2) end.abort()
  }
  expect(seen).toEqual(['text.delta', 'text'])
})

test('watchSession() ends with the failure that the daemon names', async () => {
  const { daemon: found } = await daemon((_, response) => {
    response.writeHead(404).end(JSON.stringify({ error: { code: 'not_found', message: 'There is no session' } }))
  })
  const watching = watchSession(session, 0, async () => found, new AbortController().signal)
  await expect(watching.next()).rejects.toMatchObject({ code: 'not_found' })
})
