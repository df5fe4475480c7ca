import { systemClock } from '@anchorhold/link/clock'
import { once } from 'node:events'
import { linkSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { settle } from './settle.ts'

let folder: string
let server: Server
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ah-settle-'))
  server = createServer((_, response) => response.end(JSON.stringify({ source: 'gate', n: 7, refused: null })))
})
afterEach(() => {
  server.close()
  rmSync(folder, { recursive: true })
})
/** The socket of a gate that was killed: it is there, and nobody listens. */
async function deadSocket(path: string): Promise<void> {
  const dead = createServer()
  dead.listen(join(folder, 'other'))
  await once(dead, 'listening')
  linkSync(join(folder, 'other'), path)
  await new Promise((closed) => dead.close(closed))
}
/** A clock on which it takes no time until a gate has come back. */
const clockUntil = (back: () => Promise<void>) => {
  let elapsed = 0
  return {
    ...systemClock,
    elapsed: () => elapsed,
    after(ms: number, then: () => void) {
      elapsed += ms
      void back().then(then)
      return () => {}
    },
  }
}

test('settle() asks again while a gate that died is being started', async () => {
  const socketPath = join(folder, 'model.sock')
  await deadSocket(socketPath)
  let tries = 0
  const clock = clockUntil(async () => {
    if (++tries !== 3) return
    rmSync(socketPath)
    server.listen(socketPath)
    await once(server, 'listening')
  })
  expect(await settle({ socketPath, clock })).toEqual({ source: 'gate', n: 7, refused: null })
  expect(tries).toBe(3)
})

test('settle() does not wait for ever, nor where there is no window', async () => {
  const socketPath = join(folder, 'model.sock')
  expect(await settle({ socketPath, clock: clockUntil(async () => {}) })).toBeNull()
  await deadSocket(socketPath)
  expect(await settle({ socketPath, clock: clockUntil(async () => {}) })).toBeNull()
})
