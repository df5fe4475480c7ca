import { headMessage } from '@anchorhold/core/chain'
import { apiRoot } from '@anchorhold/protocol/api/addresses'
import type { GateCommand } from '@anchorhold/protocol/gate-commands'
import { createHash, generateKeyPairSync, sign } from 'node:crypto'
import { request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { whoIs } from '../../app/people/access.ts'
import { type TestParts, testParts } from '../../app/test-parts.ts'
import { calls } from './calls.ts'
import { httpApi } from './api.ts'
import { doorServer } from './door-server.ts'
import { httpDoor } from './http.ts'
import { terminalDoor } from './terminal.ts'

export type Asked = {
  readonly method?: string
  readonly body?: unknown
  readonly token: string
}
export type TestDoor = {
  readonly parts: TestParts
  readonly port: number
  readonly logged: string[]
  /** How often somebody was let through to end the daemon. */
  readonly shutdowns: number
  ask(path: string, asked: Asked): Promise<{ readonly status: number; readonly text: string }>
  /** Reads a stream of events until it ends. */
  stream(path: string, token: string, seen: (text: string) => void): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

/** The HTTP door over the daemon's parts, with a gate that seals, tries and signs. */
export async function testDoor(): Promise<TestDoor> {
  const parts = testParts()
  parts.gate.handle = fakeAnswers()
  const logged: string[] = []
  let shutdowns = 0
  const address = () => ({ port: 7777, publicUrl: null })
  const api = httpApi({
    address,
    version: '1.2.3',
    whoIs: (secret, role, from) => whoIs(parts, secret, role, from),
    trustedProxies: 0,
    calls: calls({
      parts,
      about: { version: '1.2.3', startedAt: 0, url: () => 'http://localhost:7777' },
      async shutdown() {
        shutdowns++
        return { left_running: 0 }
      },
    }),
  })
  const door = httpDoor({
    address,
    api: async () => api,
    web: { files: new Map(), sessionCode: () => [] },
    log: (message) => void logged.push(message),
  })
  const terminal = terminalDoor({
    address,
    whoIs: (secret, role, from) => whoIs(parts, secret, role, from),
    trustedProxies: 0,
    parts: { ...parts, log: (message) => void logged.push(message) },
  })
  const server = doorServer(door, terminal)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    parts,
    port,
    logged,
    get shutdowns() {
      return shutdowns
    },
    ask(path, { method = 'GET', body, token }) {
      const sent = body === undefined ? '' : JSON.stringify(body)
      const headers = {
        host: 'localhost:7777',
        authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(sent)) }),
      }
      return new Promise((resolve, reject) => {
        const one = request({ port, path: `${apiRoot}${path}`, method, agent: false, headers }, (answer) => {
          text(answer).then((all) => resolve({ status: answer.statusCode!, text: all }), reject)
        })
        one.once('error', reject)
        one.end(sent)
      })
    },
    stream(path, token, seen) {
      const headers = { host: 'localhost:7777', authorization: `Bearer ${token}`, accept: 'text/event-stream' }
      return new Promise((resolve, reject) => {
        const one = request({ port, path: `${apiRoot}${path}`, agent: false, headers }, (answer) => {
          answer
            .setEncoding('utf8')
            .on('data', seen)
            .on('error', () => {})
          answer.once('close', resolve)
        })
        one.once('error', reject)
        one.end()
      })
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      parts[Symbol.dispose]()
    },
  }
}

function fakeAnswers() {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const raw = publicKey.export({ format: 'der', type: 'spki' }).subarray(-32)
  const key = { key: raw.toString('hex'), fingerprint: createHash('sha256').update(raw).digest('hex') }
  return (command: GateCommand): unknown => {
    switch (command.do) {
      case 'sign':
        if (command.head === null) return key
        return { ...key, signature: sign(null, Buffer.from(headMessage(command.head)), privateKey).toString('hex') }
      case 'seal':
        return { box: 'ah1.x.y.z' }
      case 'reseal':
        return { boxes: command.boxes }
      case 'test':
        return { verdict: 'ok', message: 'It answers' }
      case 'price':
        return { budget_nanos: 1000 }
      default:
        return null
    }
  }
}
