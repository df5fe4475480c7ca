import { takeLock } from '@anchorhold/link/lock'
import { watchPath } from '@anchorhold/protocol/link'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, rmdirSync, rmSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { spawn } from 'node:child_process'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { watchGate } from './gate-watch.ts'

let folder: string
let socketPath: string
let watching: AbortController
const pids: number[] = []
const log = () => join(folder, 'gate.log')
/** Stands in for the gate: says on its log that it lives and which path it was asked for, and listens where the session's window is. */
const script = () => join(folder, 'gate.mjs')
const gate = () => ({ node: process.execPath, script: script(), folder, log: log() })
const started = () =>
  existsSync(log())
    ? readFileSync(log(), 'utf8')
        .split('\n')
        .filter((line) => line.startsWith('pid '))
    : []
const note = () => pids.push(...started().map((line) => Number(line.slice(4))))

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ah-watch-'))
  socketPath = join(folder, 'model.sock')
  watching = new AbortController()
  await writeFile(
    script(),
    `import { createServer } from 'node:http'
     import { rmSync } from 'node:fs'
     rmSync(${JSON.stringify(socketPath)}, { force: true })
     createServer((request, response) => { console.log('path ' + request.url); response.writeHead(200).flushHeaders() })
       .listen(${JSON.stringify(socketPath)}, () => console.log('pid ' + process.pid))`,
  )
})
afterEach(async () => {
  watching.abort()
  note()
  for (const pid of new Set(pids.splice(0))) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It was killed by the test.
    }
  }
  await rm(folder, { recursive: true, force: true })
})

test('watchGate() starts a gate when the one that listened was killed, and waits at the new one', async () => {
  const child = spawn(process.execPath, [script()], { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  const watched = watchGate({ socketPath, gate: gate(), log: () => {} }, watching.signal)
  const [asked] = (await once(child.stdout, 'data')) as [Buffer]
  expect(asked.toString()).toBe(`path ${watchPath}\n`)
  child.kill('SIGKILL')
  await vi.waitUntil(() => started().length === 1 && readFileSync(log(), 'utf8').includes(`path ${watchPath}`), {
    timeout: 20_000,
  })
  watching.abort()
  await watched
  expect(started()).toHaveLength(1)
})

test('watchGate() starts one gate, however many keepers miss it, and another one when that is gone as well', async () => {
  const before = spawn(process.execPath, [script()], { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(before.stdout, 'data')
  const words: string[] = []
  const watched = Array.from({ length: 10 }, () =>
    watchGate({ socketPath, gate: gate(), log: (message) => void words.push(message) }, watching.signal),
  )
  const watchers = () => readFileSync(log(), 'utf8').split(`path ${watchPath}`).length - 1
  before.kill('SIGKILL')
  await vi.waitUntil(() => started().length === 1 && watchers() === 10, { timeout: 20_000 })
  process.kill(Number(started()[0]!.slice(4)), 'SIGKILL')
  await vi.waitUntil(() => started().length === 2 && watchers() === 20, { timeout: 20_000 })
  watching.abort()
  await Promise.all(watched)
  expect(words).toHaveLength(2)
})

test('watchGate() tries again where nothing can be written', async () => {
  const before = spawn(process.execPath, [script()], { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(before.stdout, 'data')
  mkdirSync(log())
  const words: string[] = []
  const watched = watchGate({ socketPath, gate: gate(), log: (message) => void words.push(message) }, watching.signal)
  await once(before.stdout, 'data')
  before.kill('SIGKILL')
  await vi.waitUntil(() => words.some((word) => word.includes('EISDIR')), { timeout: 20_000 })
  rmdirSync(log())
  await vi.waitUntil(() => started().length === 1, { timeout: 20_000 })
  watching.abort()
  await watched
})

test('watchGate() leaves it to a daemon that is quicker', async () => {
  const child = spawn(process.execPath, [script()], { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  const watched = watchGate({ socketPath, gate: gate(), log: () => {} }, watching.signal)
  await once(child.stdout, 'data')
  child.kill('SIGKILL')
  const server = createServer((_, response) => response.writeHead(200).flushHeaders())
  const asked = once(server, 'request')
  rmSync(socketPath)
  server.listen(socketPath)
  await asked
  server.closeAllConnections()
  watching.abort()
  await watched
  server.close()
  expect(started()).toEqual([])
})

test('watchGate() starts a gate where one has left in order, and none where it lives and has closed the window', async () => {
  const lives = takeLock(join(folder, 'gate.lock'))!
  const words: string[] = []
  const asked = vi.spyOn(performance, 'now')
  const watched = watchGate({ socketPath, gate: gate(), log: (message) => void words.push(message) }, watching.signal)
  // It has looked often enough to have started one twice.
  const since = performance.now()
  await vi.waitUntil(() => asked.mock.results.some(({ value }) => (value as number) > since + 2500), { timeout: 20_000 })
  expect(words).toEqual([])
  lives.release()
  await vi.waitUntil(() => started().length === 1, { timeout: 20_000 })
  watching.abort()
  await watched
  asked.mockRestore()
})
