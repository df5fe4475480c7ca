import { firstOwner, type SessionId } from '@anchorhold/protocol/ids'
import { terminalPath } from '@anchorhold/protocol/terminal'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, createConnection } from 'node:net'
import { promisify } from 'node:util'
import { expect, test, vi } from 'vitest'
import { WebSocket } from 'ws'
import { createToken, logDeviceIn, revokeToken, whoIs } from '../../app/people/access.ts'
import { createSession } from '../../app/sessions/create-session.ts'
import { addUser } from '../../app/people/people.ts'
import { owner, testParts } from '../../app/test-parts.ts'
import { terminalDoor } from './terminal.ts'
import { transaction } from '../../transaction.ts'

const shell = 'sh_0000000000000001'

/** The door of terminals, and a keeper that opens shells when the test lets it. */
async function doorOfTerminals() {
  const parts = testParts()
  const opening = Promise.withResolvers<void>()
  const go = Promise.withResolvers<void>()
  const did: string[] = []
  parts.keepers.handle = async (_, command) => {
    did.push(command.do)
    if (command.do === 'shell.open') {
      opening.resolve()
      await go.promise
      return { shell }
    }
    // A shell that says nothing.
    return command.do === 'shell.read' ? new Promise(() => {}) : null
  }
  const server = createServer().on(
    'upgrade',
    terminalDoor({
      address: () => ({ port: 7777, publicUrl: null }),
      whoIs: (secret, role, from) => whoIs(parts, secret, role, from),
      trustedProxies: 0,
      parts,
    }),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { id } = await createSession(parts, owner, {})
  const { port } = server.address() as AddressInfo
  return {
    parts,
    id,
    did,
    opening: opening.promise,
    go: () => go.resolve(),
    port,
    open: () => promisify(server.getConnections.bind(server))(),
    /** The status that a terminal was refused with, or 101. */
    ask(session: SessionId, headers: Record<string, string>) {
      const path = terminalPath(session, { cols: 80, rows: 24 }, null)
      const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, { headers: { host: 'localhost:7777', ...headers } })
      return new Promise<number>((resolve, reject) => {
        socket.once('unexpected-response', (_, { statusCode = 0 }) => resolve(statusCode))
        socket.once('open', () => {
          socket.terminate()
          resolve(101)
        })
        socket.once('error', reject)
      })
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      parts[Symbol.dispose]()
    },
  }
}

test('a login that is ended while its terminal is being opened does not get it, and the shell goes', async () => {
  await using door = await doorOfTerminals()
  const { secret, token } = createToken(door.parts, owner, { name: 'phone' })
  const asked = door.ask(door.id, { authorization: `Bearer ${secret}` })
  await door.opening
  revokeToken(door.parts, owner, token.id)
  door.go()
  expect(await asked).toBe(401)
  expect(door.did).toEqual(['shell.open', 'shell.close'])
})

test('a terminal is given to who still may when it stands', async () => {
  await using door = await doorOfTerminals()
  const { secret } = createToken(door.parts, owner, { name: 'phone' })
  door.go()
  expect(await door.ask(door.id, { authorization: `Bearer ${secret}` })).toBe(101)
})

test('a terminal is opened by a page of this house alone, and for no program', async () => {
  await using door = await doorOfTerminals()
  const { parts, id } = door
  const { secret } = createToken(parts, owner, { name: 'phone' })
  door.go()
  for (const origin of ['http://evil.example', 'http://localhost:7778', 'null'])
    expect([origin, await door.ask(id, { authorization: `Bearer ${secret}`, origin })]).toEqual([origin, 403])
  // A cookie goes along with what any page opens: who has one must say which page it is.
  const user = parts.store.people.get(firstOwner)!
  const cookie = `anchorhold=${transaction(parts, (tx) => logDeviceIn(tx, user, 'link', { address: null, agent: '', door: 'http' })).secret}`
  expect(await door.ask(id, { cookie })).toBe(403)
  addUser(parts, owner, { name: 'prog', role: 'agent' })
  const program = createToken(parts, owner, { name: 'try', user: 'prog' }).secret
  const actor = whoIs(parts, program, 'bearer', { address: null, door: 'http' })!.actor
  const own = await createSession(parts, actor, {})
  expect(await door.ask(own.id, { authorization: `Bearer ${program}` })).toBe(403)
  expect(door.did).toEqual([])
  expect(await door.ask(id, { cookie, origin: 'http://localhost:7777' })).toBe(101)
})

test('a connection whose terminal is refused is ended, whatever it sent and reads', async () => {
  await using door = await doorOfTerminals()
  const client = createConnection({ port: door.port, host: '127.0.0.1', allowHalfOpen: true })
  client.write('GET / HTTP/1.1\r\nHost: localhost:7777\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nand more')
  await once(client.resume(), 'end')
  await vi.waitUntil(async () => (await door.open()) === 0, 10_000)
  client.destroy()
})

test.each([
  ['is found to be wrong when the shell stands', { 'sec-websocket-protocol': ',,' }, 400],
  ['has no version', { 'sec-websocket-version': '' }, 400],
  ['has another version', { 'sec-websocket-version': '7' }, 400],
  ['has no key', { 'sec-websocket-key': 'short' }, 400],
])('a handshake that %s leaves no shell behind', async (_, headers, status) => {
  await using door = await doorOfTerminals()
  const { secret } = createToken(door.parts, owner, { name: 'phone' })
  door.go()
  const lines = {
    ...{ host: 'localhost:7777', connection: 'Upgrade', upgrade: 'websocket', authorization: `Bearer ${secret}` },
    ...{ 'sec-websocket-version': '13', 'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==', ...headers },
  }
  const client = createConnection(door.port, '127.0.0.1')
  const said = Object.entries(lines).map(([name, value]) => `${name}: ${value}\r\n`)
  client.write(`GET ${terminalPath(door.id, { cols: 80, rows: 24 }, null)} HTTP/1.1\r\n${said.join('')}\r\n`)
  const [answer] = (await once(client, 'data')) as [Buffer]
  expect(answer.toString()).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
  client.destroy()
  await vi.waitUntil(async () => (await door.open()) === 0, 10_000)
  // Nothing was opened, or what was is closed.
  await vi.waitUntil(
    () => door.did.filter((one) => one === 'shell.open').length === door.did.filter((one) => one === 'shell.close').length,
  )
})
