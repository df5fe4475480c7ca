import { once } from 'node:events'
import { createServer } from 'node:https'
import { connect } from 'node:net'
import { createSecureContext } from 'node:tls'
import { hostTarget, type Target } from '@anchorhold/core/net/target'
import { expect, test, vi } from 'vitest'
import { type KeptConnections, keptConnections, type KeptConnectionsParts } from './kept-connections.ts'
import { listener, selfSigned } from './test-net.ts'

const certificate = selfSigned('allowed.test')
const place = (host: string) => ({ target: hostTarget(host, 443) as Target, ownNetwork: false })

function connectionsTo(port: number, more: Partial<KeptConnectionsParts> = {}) {
  const closing = new AbortController()
  return keptConnections({
    dial: async () => {
      const socket = connect({ host: '127.0.0.1', port })
      await once(socket, 'connect')
      return { socket }
    },
    trust: () => createSecureContext({ ca: certificate.cert }),
    signal: closing.signal,
    ...more,
  })
}

/** What becomes of one request. */
function send(over: KeptConnections, method: string, host = 'allowed.test'): Promise<unknown> {
  return new Promise((resolve) => {
    const said = { answered() {}, data() {}, ended: () => resolve('ended'), failed: resolve }
    over.send(place(host), { method, path: '/', headers: ['host', host], body: null }, said)
  })
}

test.each([
  ['GET', 'says again', 0, ['GET', 'GET', 'GET'], 'ended'],
  ['HEAD', 'says again', 0, ['GET', 'HEAD', 'HEAD'], 'ended'],
  ['GET', 'does not say again what somebody may have read,', 5000, ['GET', 'GET'], { failed: expect.any(String) }],
  ['POST', 'says once', 0, ['GET', 'POST'], { failed: expect.any(String) }],
  ['DELETE', 'says once', 0, ['GET', 'DELETE'], { failed: expect.any(String) }],
] as const)(
  'keptConnections() of a %s whose connection breaks: %s (after %i ms)',
  async (method, _, afterMs, expected, outcome) => {
    let elapsed = 0
    const received: string[] = []
    await using server = await listener(
      createServer(certificate, (asked, response) => {
        received.push(asked.method ?? '')
        if (received.length !== 2) return void response.end()
        elapsed += afterMs
        asked.socket.destroy()
      }),
    )
    const over = connectionsTo(server.port, { elapsed: () => elapsed })
    expect(await send(over, 'GET')).toBe('ended')
    expect(await send(over, method)).toEqual(outcome)
    expect(received).toEqual(expected)
    over.close()
  },
)

test('keptConnections() remembers nothing of hosts that were not reached, and of those that were only what is kept', async () => {
  await using server = await listener(createServer(certificate, (_, response) => void response.end()))
  const sets = vi.spyOn(Map.prototype, 'set')
  const reachable = connectionsTo(server.port)
  const unreachable = connectionsTo(0, { dial: async () => ({ failed: 'no such name' }) })
  for (let host = 0; host < 20; host += 1) await send(unreachable, 'GET', `name-${host}.test`)
  for (let time = 0; time < 3; time += 1) await send(reachable, 'GET')
  const held = sets.mock.contexts.flatMap((map) => [...(map as Map<unknown, unknown>).keys()])
  sets.mockRestore()
  const hosts = new Set(held.filter((key) => typeof key === 'string' && key.includes('.test:443')))
  expect([...hosts]).toEqual(['allowed.test:443 false'])
  expect(server.connections).toBe(1)
  reachable.close()
})
