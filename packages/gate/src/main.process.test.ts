import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { type IncomingMessage, request, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { type Attachment, attachTo } from '@anchorhold/link/attach'
import { eventBodies } from '@anchorhold/protocol/events'
import { type OutboxRecord, Reservation, Settlement, settlePath } from '@anchorhold/protocol/link'
import { build } from 'rolldown'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { fakeUpstream, sse, streamed } from './fake-upstream.ts'
import { local, plainAuthority, session, small, textOf } from './test-gate.ts'

const usd = 1_000_000_000
const streamHead = { 'content-type': 'text/event-stream' }
const start = sse('message_start', { message: { usage: { input_tokens: 7, output_tokens: 1 } } })
const text = sse('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'some words' } })

/** Its program in one piece: Node would take most of each start to read its modules. */
const program = join(mkdtempSync(join(tmpdir(), 'ah-gate-program-')), 'gate.mjs')
beforeAll(() =>
  build({ input: join(import.meta.dirname, 'main.ts'), platform: 'node', output: { file: program, codeSplitting: false } }),
)
afterAll(() => rmSync(dirname(program), { recursive: true }))

/** Gates as processes of their own, one after the other in one folder, and a daemon's end of the link. */
async function gates(state?: string) {
  const root = await mkdtemp(join(tmpdir(), 'ah-gate-'))
  const folder = state ?? join(root, 'gate')
  const windows = join(root, 'w')
  for (const each of [folder, windows]) mkdirSync(each, { recursive: true })
  const records: OutboxRecord[] = []
  let child: ChildProcess | null = null
  let link: Attachment | null = null
  let words = ''
  const it = {
    root,
    folder,
    windows,
    records,
    said: () => words,
    get child() {
      return child!
    },
    /** Starts a gate and resolves when it stands; rejects when it does not. */
    async start() {
      const node = [process.execPath, '--disable-warning=ExperimentalWarning', program, folder] as const
      const one = spawn(node[0], node.slice(1), { stdio: ['ignore', 'pipe', 'pipe', 'pipe'], env: { TEST_KEY: 'sk-test' } })
      child = one
      for (const stream of [one.stdout, one.stderr]) stream!.on('data', (chunk: Buffer) => (words += chunk.toString()))
      const ready = await new Promise<boolean>((resolve) => {
        ;(one.stdio[3] as Readable).once('data', () => resolve(true))
        one.once('exit', () => resolve(false))
      })
      if (!ready) throw new Error(`The gate did not start: ${words}`)
    },
    async kill() {
      const gone = once(child!, 'exit')
      child!.kill('SIGKILL')
      await gone
    },
    /** Attaches as a daemon does, from where it left off. */
    async attach() {
      link?.close()
      link = await attachTo({
        socketPath: join(folder, 'link.sock'),
        source: 'gate',
        after: records.at(-1)?.n ?? 0,
        onRecord: (record) => records.push(record),
        onLive() {},
        onClose() {},
      })
      return link
    },
    open: async (url: string, budget_nanos: number | null) => {
      const rules = { allow: [] }
      const { spent } = it.books()
      const command = {
        do: 'open',
        session,
        folder: windows,
        provider: local(url),
        budget_nanos,
        rules,
        authority: plainAuthority,
      }
      await (await it.attach()).do({ ...command, spent_nanos: spent, spent_to: records.at(-1)?.n ?? 0 })
    },
    /** Sends a call; what comes back may break off. */
    async call(body: object = small()): Promise<{ readonly status: number; readonly body: string } | null> {
      const json = JSON.stringify(body)
      const sent = request({
        socketPath: join(windows, 'model.sock'),
        method: 'POST',
        path: '/v1/messages',
        headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(json) },
        agent: false,
      })
      sent.end(json)
      try {
        const [response] = (await once(sent, 'response')) as [IncomingMessage]
        return { status: response.statusCode ?? 0, body: await textOf(response) }
      } catch {
        return null
      }
    },
    books() {
      const reservations = records.flatMap(({ type, body }) => (type === 'reservation' ? [Reservation.parse(body)] : []))
      const usage = records.flatMap(({ type, body }) => (type === 'usage' ? [eventBodies.usage.parse(body)] : []))
      return { reservations, usage, spent: usage.reduce((sum, one) => sum + one.cost_nanos, 0) }
    },
    /** Has the gate bring everything into its books, as a keeper does at the end of a turn. */
    async settle() {
      const sent = request({ socketPath: join(windows, 'model.sock'), method: 'POST', path: settlePath, agent: false }).end()
      const [response] = (await once(sent, 'response')) as [IncomingMessage]
      return Settlement.parse(JSON.parse(await textOf(response))).n
    },
    /** Everything that was reserved is settled, once. */
    async balanced() {
      const last = await it.settle()
      await vi.waitFor(
        () => {
          expect(records.length).toBeGreaterThanOrEqual(last)
          const { reservations, usage } = it.books()
          expect(usage).toHaveLength(reservations.length)
          expect(new Set(usage.map(({ call }) => call))).toEqual(new Set(reservations.map(({ call }) => call)))
        },
        { timeout: 20_000 },
      )
      expect(records.map(({ n }) => n)).toEqual(records.map((_, index) => index + 1))
    },
  }
  onTestFinished(async () => {
    link?.close()
    if (child !== null && child.exitCode === null && child.signalCode === null) await it.kill()
    await rm(root, { recursive: true, force: true })
  })
  return it
}

test.each([
  ['before its upstream answers', []],
  ['after the first bytes of an answer', [start]],
  ['in the middle of an answer', [start, text, text]],
])('a gate that is killed %s leaves a call that the next one books in full, once', async (_, chunks) => {
  const reached = Promise.withResolvers<void>()
  let whole = false
  await using upstream = await fakeUpstream((response) => {
    if (whole) return void response.writeHead(200, streamHead).end(streamed('ok', 10, 5))
    if (chunks.length > 0) response.writeHead(200, streamHead).write(chunks.join(''))
    reached.resolve()
  })
  const it = await gates()
  await it.start()
  await it.open(upstream.url, usd)
  const cut = it.call()
  await reached.promise
  await it.kill()
  expect(await cut).toBeNull()
  // Nobody tells this one anything: it serves the session by itself.
  await it.start()
  whole = true
  expect((await it.call())?.status).toBe(200)
  expect(await it.settle()).toBe(4)
  await it.kill()
  await it.start()
  await it.attach()
  await it.balanced()
  const { usage, reservations } = it.books()
  expect(usage).toHaveLength(2)
  expect(usage[0]).toMatchObject({ estimated: true, status: 0, cost_nanos: reservations[0]!.nanos })
  expect(usage[1]).toMatchObject({ estimated: false, status: 200, cost_nanos: 10 * 2000 + 5 * 10_000 })
  const kept = join(it.folder, 'leases', `${session}.json`)
  expect(statSync(kept).mode & 0o777).toBe(0o600)
})

test('a budget holds over gates that are killed in the middle of calls', { timeout: 60_000 }, async () => {
  const answers: ServerResponse[] = []
  await using upstream = await fakeUpstream((response) => {
    answers.push(response)
    response.writeHead(200, streamHead).write(start + text)
  })
  const it = await gates()
  const cap = usd / 4
  await it.start()
  await it.open(upstream.url, cap)
  for (let life = 0; life < 4; life++) {
    const before = answers.length
    const calls = [0, 1, 2].map(() => it.call())
    await vi.waitUntil(() => answers.length === before + 3, { timeout: 20_000 })
    // One ends as it should; of the others nobody knows what became.
    answers[before]!.end(streamed('ok', 10, 5))
    await Promise.race(calls)
    await it.kill()
    await it.start()
    // Every other time a daemon is there, and says what it knows.
    if (life % 2 === 0) await it.open(upstream.url, cap)
  }
  answers.length = 0
  const last = it.call(small({ max_tokens: 64_000 }))
  await vi.waitUntil(() => answers.length === 1, { timeout: 20_000 })
  answers[0]!.end(streamed('ok', 10, 5))
  await last
  await it.attach()
  await it.balanced()
  const { spent } = it.books()
  expect(spent).toBeLessThanOrEqual(cap)
  // What is left is known to the nano: a call that needs one nano more is refused.
  const link = await it.attach()
  await link.do({ do: 'budget', session, budget_nanos: spent })
  expect(await it.call()).toMatchObject({ status: 403 })
})

test('a session that was closed, or stopped by panic, is not served by the next gate', async () => {
  await using upstream = await fakeUpstream((response) => void response.writeHead(200, streamHead).end(streamed('ok', 10, 5)))
  const it = await gates()
  for (const last of [{ do: 'close', session }, { do: 'panic' }]) {
    await it.start()
    await it.open(upstream.url, null)
    await (await it.attach()).do(last)
    await it.kill()
    await it.start()
    expect(await it.call()).toBeNull()
    expect(readdirSync(join(it.folder, 'leases'))).toEqual([])
    await it.kill()
  }
})

test('a paused session is still paused in the next gate', async () => {
  await using upstream = await fakeUpstream((response) => void response.writeHead(200, streamHead).end(streamed('ok', 10, 5)))
  const it = await gates()
  await it.start()
  await it.open(upstream.url, null)
  await (await it.attach()).do({ do: 'pause', session })
  await it.kill()
  await it.start()
  const held = it.call()
  // A malformed call is refused at once, so the held one that came before it has been read by then.
  expect((await it.call(small({ container: 'x' })))?.status).toBe(403)
  expect(upstream.received).toHaveLength(0)
  await (await it.attach()).do({ do: 'resume', session })
  expect((await held)?.status).toBe(200)
})

const mountable = process.platform === 'linux' && process.getuid?.() === 0 && canMount()
test.skipIf(!mountable)(
  'a full disk (needs root, to mount a small one): calls are refused in words, and made again when there is room',
  async () => {
    await using upstream = await fakeUpstream((response) => void response.writeHead(200, streamHead).end(streamed('ok', 10, 5)))
    const disk = await mkdtemp(join(tmpdir(), 'ah-disk-'))
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=128k,mode=700', 'tmpfs', disk])
    onTestFinished(() => {
      execFileSync('umount', ['-l', disk])
      rmSync(disk, { recursive: true, force: true })
    })
    const it = await gates(disk)
    await it.start()
    await it.open(upstream.url, usd)
    expect((await it.call())?.status).toBe(200)
    const ballast = join(disk, 'ballast')
    for (let size = 128; size > 0; size--) {
      try {
        writeFileSync(ballast, Buffer.alloc(1024), { flag: 'a' })
      } catch {
        break
      }
    }
    const died = once(it.child, 'exit')
    let refused = await it.call()
    // What is left of the last page takes a few more.
    while (refused?.status === 200) refused = await it.call()
    // The gate may have left by itself already, when the disk was full just as a call had ended.
    if (refused !== null) expect(refused).toMatchObject({ status: 403, body: expect.stringContaining('disk') })
    const dialled = upstream.received.length
    expect(await died).toEqual([74, null])
    expect(it.said()).toContain('ENOSPC')
    rmSync(ballast)
    await it.start()
    expect((await it.call())?.status).toBe(200)
    expect(upstream.received).toHaveLength(dialled + 1)
    await it.attach()
    await it.balanced()
  },
)

function canMount(): boolean {
  try {
    execFileSync('unshare', ['-m', 'true'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
