import { expect, test } from 'vitest'
import { connections, type OriginConnections } from './connections.ts'
import { fakeUpstream } from '../fake-upstream.ts'

/** What becomes of one request. */
function send(line: OriginConnections): Promise<unknown> {
  return new Promise((resolve) => {
    const listener = { answered() {}, data() {}, ended: () => resolve('ended'), failed: resolve }
    line.send({ path: '/', headers: {}, body: '{}' }, listener, 'kept')
  })
}

test.each([
  ['at once, nobody has read the request', 0, true],
  ['after a while, somebody may have', 5000, false],
])('connections() says that where a kept connection breaks %s', async (_, afterMs, unread) => {
  let elapsed = 0
  let answers = 0
  await using upstream = await fakeUpstream((response, __, request) => {
    if (answers++ === 0) return void response.end('ok')
    elapsed += afterMs
    request.socket.destroy()
  })
  const lines = connections(() => elapsed)
  expect(await send(lines.to(upstream.url))).toBe('ended')
  expect(await send(lines.to(upstream.url))).toEqual({ code: 'ECONNRESET', sent: true, unread })
  await lines.close()
})

test('connections() says that nothing was sent where nobody listens', async () => {
  const upstream = await fakeUpstream(() => {})
  await upstream[Symbol.asyncDispose]()
  const lines = connections()
  expect(await send(lines.to(upstream.url))).toEqual({ code: 'ECONNREFUSED', sent: false, unread: false })
  await lines.close()
})
