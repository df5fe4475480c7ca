import { type Clock, systemClock } from '@anchorhold/link/clock'
import { folderDisk } from '@anchorhold/link/disk'
import { lockHolder, takeLock, tellsLockHolders } from '@anchorhold/link/lock'
import { openOutbox } from '@anchorhold/link/outbox'
import type { LiveFrame } from '@anchorhold/protocol/events'
import { Failure } from '@anchorhold/protocol/failures'
import { newSessionId, type SessionId } from '@anchorhold/protocol/ids'
import type { KeeperStart } from '@anchorhold/protocol/keeper-start'
import { linkVersion } from '@anchorhold/protocol/link'
import { execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'rolldown'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { folders as foldersOf, makeFolders } from '../folders.ts'
import { hub } from '../hub.ts'
import { sqliteStore } from '../store/sqlite/sqlite-store.ts'
import type { Store } from '../store/store.ts'
import { isUnsettled } from '../workspace/unsettled.ts'
import { keeperHost, type KeeperHost } from './keeper-host.ts'
import { type KeeperProcesses, keeperProcesses } from './keeper-processes.ts'
import type { Runtime } from './runtime.ts'
import { type Sources, sources as makeSources } from './sources.ts'

let root = ''
let store: Store
let session: SessionId
let model = 'fine'
let repoFilter: KeeperStart['policy']['repo_filter'] = 'none'
let gone: SessionId[]
let saying: (readonly LiveFrame[])[]
let unread: Failure[]
let logged: string[]
/** What was stored each time when one had gone. */
let goneAfter: (readonly string[])[]
let isDiskFull = false
let keepers: KeeperProcesses
const made: KeeperProcesses[] = []

/** Its program in one piece: Node would take most of each test to read its sixty modules. */
const fakeKeeper = join(mkdtempSync(join(tmpdir(), 'ah-fake-keeper-')), 'keeper.mjs')
beforeAll(() =>
  build({
    input: fileURLToPath(import.meta.resolve('./fake-keeper-main.ts')),
    platform: 'node',
    output: { file: fakeKeeper, codeSplitting: false },
  }),
)
afterAll(() => rmSync(dirname(fakeKeeper), { recursive: true }))

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'ah-kp-'))
  makeFolders(foldersOf(root), false)
  store = sqliteStore(':memory:')
  session = newSessionId(randomBytes)
  store.sessions.insert({ id: session, options: {}, runAs: null, conversation: 'c', conversing: false, grants: [] })
  mkdirSync(foldersOf(root).session(session))
  model = 'fine'
  repoFilter = 'none'
  gone = []
  saying = []
  unread = []
  logged = []
  goneAfter = []
  keepers = processes()
})
afterEach(async () => {
  for (const one of made.splice(0)) {
    one.kill(session)
    await one.gone(session)
  }
  store.close()
  rmSync(root, { recursive: true })
})

/** As a daemon makes them; a second call is the next daemon. */
function processes(
  beatMs: number | null = null,
  sources = sourcesOf(store),
  { remains, clock = systemClock }: { readonly remains?: Remaining; readonly clock?: Clock } = {},
): KeeperProcesses {
  const folders = foldersOf(root)
  const host = keeperHost({
    rootOf: () => null,
    isOwned: () => false,
    folders,
    runtime: { node: process.execPath, keeper: fakeKeeper } as Runtime,
    spare: false,
    newUser: () => null,
    pools: {},
    limits: {} as KeeperStart['place']['limits'],
    busy: () => 0,
    log: () => {},
  })
  const one = keeperProcesses({
    folders,
    host: remains === undefined ? host : { ...host, remains: (id, after) => remains(() => host.remains(id, after)) },
    sources,
    clock,
    log: (message) => void logged.push(message),
    beatMs,
  })
  one.listen({
    async describe(id) {
      const folder = folders.session(id)
      const place = { session: id, folder, cgroups: [] as string[] }
      const start = { place, agent: { model }, policy: { repo_filter: repoFilter } } as KeeperStart
      return { start, runAs: null }
    },
    gone(id) {
      if (isDiskFull) throw new Failure('storage_unavailable', 'The disk is full')
      gone.push(id)
      goneAfter.push(told())
    },
    unread: (_, failure) => void unread.push(failure),
    notStarted() {},
    saying: (_, frames) => void saying.push(frames),
  })
  made.push(one)
  return one
}
/** Reads what a keeper left, or does not. */
type Remaining = (read: () => ReturnType<KeeperHost['remains']>) => ReturnType<KeeperHost['remains']>
/** On this one nobody waits for the next attempt: a second goes by at once. */
function patientClock(): Clock {
  let skippedMs = 0
  return {
    ...systemClock,
    elapsed: () => systemClock.elapsed() + skippedMs,
    after(ms, then) {
      if (ms !== 1000) return systemClock.after(ms, then)
      skippedMs += ms
      return systemClock.after(0, then)
    },
  }
}
const sourcesOf = (of: Store): Sources => makeSources({ store: of, hub: hub(), log: () => {} })
/** Whoever holds the session's lock. */
function keeperPids(): number[] {
  const pid = lockHolder(foldersOf(root).keeperLock(session))
  return pid === null ? [] : [pid]
}
const told = () => store.events.after(session, 0, 100).flatMap((event) => (event.type === 'notice' ? [event.body.message] : []))

test('ensure() starts one keeper, however many ask at once', async () => {
  await Promise.all([keepers.ensure(session), keepers.ensure(session)])
  await keepers.ensure(session)
  expect([keepers.has(session), keepers.count, keepers.sessions]).toEqual([true, 1, [session]])
  await vi.waitFor(() => expect(told()).toEqual(['started']))
})

test('reattach() of a session that never had a keeper leaves nothing in its folder', async () => {
  expect(await keepers.reattach(session)).toBe(false)
  expect(readdirSync(foldersOf(root).session(session))).toEqual([])
})

test.each([
  ['a fifo', (path: string) => rmSync(path), (path: string) => void execFileSync('mkfifo', [path])],
  ['a link', (path: string) => renameSync(path, `${path}.real`), (path: string) => symlinkSync(`${path}.real`, path)],
  ['more than a keeper writes', () => {}, (path: string) => truncateSync(path, 64 * 1024 * 1024 + 1)],
])('reattach() takes a dead keeper’s last words from a file, and waits for none where there is %s', async (_, away, put) => {
  const path = foldersOf(root).saying(session)
  const words: LiveFrame = { type: 'text.delta', block: 'b', offset: 0, text: 'x', parent: null }
  writeFileSync(path, `${JSON.stringify(words)}\n`)
  await keepers.reattach(session)
  away(path)
  put(path)
  await keepers.reattach(session)
  expect(saying).toEqual([[words], []])
})

test('reattach() takes in what a dead keeper left some at a time, each when the one before is stored', async () => {
  const outbox = await openOutbox({ disk: folderDisk(foldersOf(root).outbox(session)), now: () => 1 })
  const message = (n: number) => `${n} ${'x'.repeat(1_000_000)}`
  for (let n = 1; n <= 12; n++)
    outbox.append(session, { type: 'notice', body: { level: 'info', code: 'x', message: message(n) } })
  await outbox.close()
  const sources = sourcesOf(store)
  const taken: { readonly after: number; readonly records: number }[] = []
  const take: Sources['take'] = (source, records) => {
    taken.push({ after: sources.lastOf(source), records: records.length })
    sources.take(source, records)
  }
  expect(await processes(null, { ...sources, take }).reattach(session)).toBe(false)
  expect(taken).toEqual([
    { after: 0, records: 5 },
    { after: 5, records: 5 },
    { after: 10, records: 2 },
  ])
  expect(told()).toEqual(Array.from({ length: 12 }, (_, n) => message(n + 1)))
})

test('end() has the keeper leave, and takes in what it told last', async () => {
  await keepers.ensure(session)
  await keepers.end(session, 'Stopped')
  expect([keepers.has(session), keepers.sessions, gone]).toEqual([false, [], [session]])
  expect(told()).toEqual(['started', 'leave', 'left'])
  await keepers.end(session, 'again')
})

test('end() waits for a keeper that is just being started', async () => {
  const starting = keepers.ensure(session)
  await keepers.end(session, 'Stopped')
  await starting
  expect([keepers.has(session), gone]).toEqual([false, [session]])
})

test('end() lets a keeper be that is wanted again by the time it stands', async () => {
  const starting = keepers.ensure(session)
  await keepers.end(session, 'Stopped', { still: () => false })
  await starting
  expect([keepers.has(session), gone]).toEqual([true, []])
})

test('what became of a keeper while no daemon was there is stored before there is another', async () => {
  await keepers.ensure(session)
  await keepers.detach()
  keepers.kill(session)
  const next = processes()
  const full = () => {
    throw new Failure('storage_unavailable', 'The disk is full')
  }
  await vi.waitFor(() => expect(next.reattach(session, full)).rejects.toThrow('The disk is full'))
  expect(gone).toEqual([])
  await next.ensure(session)
  expect([next.has(session), gone]).toEqual([true, [session]])
})

test('a keeper that is being looked for is not looked for twice', async () => {
  const lost: string[] = []
  const [one, other] = [
    keepers.reattach(session, () => void lost.push('one')),
    keepers.reattach(session, () => void lost.push('other')),
  ]
  expect(await Promise.all([one, other])).toEqual([false, false])
  expect([lost, keepers.sessions]).toEqual([['one'], []])
})

test('kill() ends a keeper at once, and what it had told is kept', async () => {
  await keepers.ensure(session)
  keepers.kill(session)
  await keepers.gone(session)
  expect([keepers.has(session), gone, told()]).toEqual([false, [session], ['started']])
})

test('a keeper that hangs is ended, and what it had told is kept', async () => {
  const one = processes(20)
  await one.ensure(session)
  const [pid] = keeperPids()
  process.kill(pid!, 'SIGSTOP')
  await vi.waitFor(() => expect(gone).toEqual([session]), 20_000)
  expect([one.has(session), keeperPids(), told()[0]]).toEqual([false, [], 'started'])
})

/** Who answers in the keeper's place, as one that got out of its cell can, and says that he is this process. */
async function impostor(pid: number) {
  const answers = new Set<Socket>()
  const server = createServer((socket) => {
    answers.add(socket)
    socket.on('error', () => {})
    socket.write(`${JSON.stringify({ t: 'hello', version: linkVersion, source: `keeper/${session}`, pid, last: 0 })}\n`)
  })
  await new Promise<void>((resolve) => server.listen(foldersOf(root).keeperSocket(session), resolve))
  return {
    [Symbol.dispose]() {
      server.close()
      for (const socket of answers) socket.destroy()
    },
  }
}

test.skipIf(!tellsLockHolders()).each(['hangs', 'is killed', 'is told to leave'] as const)(
  'one that answers in a keeper’s place and %s has nobody else ended under a number that it names, and is let go of',
  async (how) => {
    const bystander = spawn('sleep', ['60'])
    using _ = await impostor(bystander.pid!)
    const one = processes(how === 'hangs' ? 1 : null)
    expect(await one.reattach(session)).toBe(true)
    if (how === 'is killed') one.kill(session)
    if (how === 'is told to leave') {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
      const ending = one.end(session, 'Stopped')
      await vi.waitFor(() => expect(vi.getTimerCount()).toBeGreaterThan(0))
      await vi.advanceTimersByTimeAsync(20_000)
      vi.useRealTimers()
      await ending
    }
    await vi.waitFor(() => expect(gone).toEqual([session]), 20_000)
    expect([bystander.exitCode, bystander.signalCode, one.has(session)]).toEqual([null, null, false])
    bystander.kill()
    await once(bystander, 'exit')
  },
)

test('reattach() takes no link to somebody else’s lock for a keeper’s', async () => {
  const elsewhere = join(root, 'elsewhere.lock')
  const lock = takeLock(elsewhere)
  symlinkSync(elsewhere, foldersOf(root).keeperLock(session))
  expect(await keepers.reattach(session)).toBe(false)
  lock?.release()
})

test('kill() ends nobody under the number of a keeper that has died, and whose end cannot be stored yet', async () => {
  await keepers.ensure(session)
  const [pid] = keeperPids()
  isDiskFull = true
  try {
    process.kill(pid!, 'SIGKILL')
    await vi.waitFor(() => expect(keepers.has(session)).toBe(false))
    using ended = vi.spyOn(process, 'kill').mockReturnValue(true)
    keepers.kill(session)
    expect([keepers.sessions, ended.mock.calls]).toEqual([[session], []])
  } finally {
    isDiskFull = false
  }
  await keepers.gone(session)
  expect(gone).toEqual([session])
})

test('kill() ends a keeper that does not stand yet', async () => {
  model = 'stuck'
  const starting = keepers.ensure(session)
  starting.catch(() => {})
  expect(keepers.sessions).toEqual([session])
  keepers.kill(session)
  await expect(starting).rejects.toMatchObject({ code: 'keeper_unavailable' })
  expect(keepers.sessions).toEqual([])
  model = 'fine'
  await keepers.ensure(session)
})

test('kill() ends a keeper that stands and that nobody is attached to yet', async () => {
  const sources = sourcesOf(store)
  const one = processes(null, {
    ...sources,
    async attach(...how) {
      const attachment = await sources.attach(...how)
      one.kill(session)
      return attachment
    },
  })
  await expect(one.ensure(session)).rejects.toMatchObject({ code: 'keeper_unavailable' })
  await one.gone(session)
  expect([one.sessions, keeperPids(), told()]).toEqual([[], [], ['started']])
})

test('ensure() fails in words when a keeper cannot start', async () => {
  model = 'broken'
  await expect(keepers.ensure(session)).rejects.toMatchObject({
    code: 'keeper_unavailable',
    message: expect.stringContaining('code 3') as string,
  })
})

test.each(['standard', 'none'] as const)(
  'ensure() says of a keeper that does not stand in time that it did not, and names the filter %s where that may be why',
  async (filter) => {
    model = 'stuck'
    repoFilter = filter
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const starting = keepers.ensure(session)
    starting.catch(() => {})
    await vi.waitFor(() => expect(vi.getTimerCount()).toBeGreaterThan(0))
    await vi.advanceTimersByTimeAsync(30_000)
    vi.useRealTimers()
    const failure = await starting.then(
      () => null,
      (error: unknown) => error as Failure,
    )
    expect(failure).toMatchObject({
      code: 'keeper_unavailable',
      message: `Cannot start the keeper of session "${session}": it was not ready within 30 s`,
    })
    expect(failure!.hint?.includes('--repo-filter none')).toBe(filter === 'standard')
  },
)

test('ensure() starts a keeper anew that dies before it is found, and has what it told', async () => {
  model = 'mortal-once'
  await keepers.ensure(session)
  expect([keepers.has(session), gone]).toEqual([true, [session]])
  await vi.waitFor(() => expect(told()).toEqual(['started', 'started']))
})

test('ensure() gives up on a keeper that dies each time before it is found, in words, and loses nothing of what they told', async () => {
  model = 'mortal'
  await expect(keepers.ensure(session)).rejects.toMatchObject({
    code: 'keeper_unavailable',
    message: expect.stringContaining('it ended as soon as it stood') as string,
  })
  expect([keepers.sessions, gone, told()]).toEqual([[], [session, session, session], ['started', 'started', 'started']])
  model = 'fine'
  await keepers.ensure(session)
  expect(keepers.has(session)).toBe(true)
})

test('a keeper of the release before goes on under this daemon: it is found, commanded, heard to its end, and followed by a new one', async () => {
  model = 'older'
  await keepers.ensure(session)
  await keepers.detach()
  const next = processes()
  expect(await next.reattach(session)).toBe(true)
  await next.do(session, { do: 'interrupt' })
  await vi.waitFor(() => expect(told()).toEqual(['started', 'interrupt']))
  await next.end(session, 'Its turn is over')
  expect([told(), gone]).toEqual([['started', 'interrupt', 'leave', 'left'], [session]])
  model = 'fine'
  await next.ensure(session)
  await vi.waitFor(() => expect(told().at(-1)).toBe('started'))
})

test('ensure() starts the next keeper when the one before has left', async () => {
  await keepers.ensure(session)
  const leaving = keepers.do(session, { do: 'leave', why: 'idle' }).catch(() => {})
  await leaving
  await keepers.gone(session)
  await keepers.ensure(session)
  expect(keepers.has(session)).toBe(true)
  await vi.waitFor(() => expect(told()).toEqual(['started', 'leave', 'left', 'started']))
})

test('do() fails in words when there is no keeper, or it goes', async () => {
  await expect(keepers.do(session, { do: 'ping' })).rejects.toMatchObject({ code: 'keeper_unavailable' })
  await keepers.ensure(session)
  expect(await keepers.do(session, { do: 'ping' })).toBeNull()
})

test('reattach() finds a keeper that outlived the daemon, and nothing is told twice', async () => {
  await keepers.ensure(session)
  await vi.waitFor(() => expect(told()).toEqual(['started']))
  await keepers.detach()
  const next = processes()
  expect(await next.reattach(session)).toBe(true)
  await next.do(session, { do: 'ping' })
  await vi.waitFor(() => expect(told()).toEqual(['started', 'ping']))
  await next.end(session, 'Stopped')
  expect(told()).toEqual(['started', 'ping', 'leave', 'left'])
})

test('reattach() reads what a keeper left behind that died while the daemon was away', async () => {
  await keepers.ensure(session)
  const next = processes()
  await next.reattach(session)
  await keepers.detach()
  await next.detach()
  next.kill(session)
  const last = processes()
  await vi.waitFor(async () => expect(await last.reattach(session)).toBe(false))
  expect(told()).toEqual(['started'])
})

test('a keeper whose outbox was emptied is heard all the same, and the session is told', async () => {
  await keepers.ensure(session)
  for (let i = 0; i < 3; i++) await keepers.do(session, { do: 'ping' })
  await keepers.end(session, 'Stopped')
  const before = told().length
  rmSync(foldersOf(root).outbox(session), { recursive: true })
  await keepers.ensure(session)
  await vi.waitFor(() =>
    expect(told().slice(before)).toEqual([expect.stringContaining('The keeper of this session has lost its records'), 'started']),
  )
  await keepers.end(session, 'Stopped')
  expect(told().slice(before + 2)).toEqual(['leave', 'left'])
})

test('a place that waits for a session is marked as nobody’s for as long as it is there', async () => {
  const folders = foldersOf(root)
  const host = keeperHost({
    ...{ rootOf: () => null, isOwned: () => false, folders, spare: false, newUser: () => null, busy: () => 0, log: () => {} },
    runtime: { node: process.execPath, keeper: fakeKeeper } as Runtime,
    pools: { bwrap: { min: 1, max: 1, idleMs: 1000, scaleUpThreshold: 1 } },
    limits: {} as KeeperStart['place']['limits'],
  })
  host.makeReady()
  const [place] = host.readyCells
  expect([existsSync(folders.session(place!.session)), isUnsettled(folders, place!.session)]).toEqual([true, true])
  await host.discard()
  expect([existsSync(folders.session(place!.session)), isUnsettled(folders, place!.session)]).toEqual([false, false])
})

test('ensure() takes over a keeper that a daemon before started and did not live to hear of', async () => {
  await keepers.ensure(session)
  await keepers.detach()
  const next = processes()
  await next.ensure(session)
  expect(next.has(session)).toBe(true)
  await next.end(session, 'Stopped')
  expect(told().filter((word) => word === 'started')).toHaveLength(1)
})

const broken = () => Promise.reject(Object.assign(new Error('EIO: i/o error, fdatasync'), { code: 'EIO' }))

test('a keeper has gone only when all that it left is stored, though it can be read neither at once nor at one go', async () => {
  let reads = 0
  const remains: Remaining = async (read) => {
    if (++reads === 1) return broken()
    const left = await read()
    if (reads > 2) return left
    return {
      ...left,
      records: (async function* () {
        for await (const [first] of left.records) {
          yield [first!]
          await broken()
        }
      })(),
    }
  }
  const one = processes(null, undefined, { remains, clock: patientClock() })
  await one.ensure(session)
  await vi.waitFor(() => expect(told()).toEqual(['started']))
  await one.end(session, 'Stopped')
  expect([reads, gone, unread]).toEqual([3, [session], []])
  expect(goneAfter).toEqual([['started', 'leave', 'left']])
  expect(logged).toEqual([expect.stringContaining('EIO: i/o error, fdatasync: trying again')])
})

test('ensure() takes in what a keeper left that dies before it is found, though it cannot be read at once', async () => {
  model = 'mortal-once'
  let reads = 0
  const remains: Remaining = (read) => (++reads === 1 ? broken() : read())
  const one = processes(null, undefined, { remains, clock: patientClock() })
  await one.ensure(session)
  await vi.waitFor(() => expect(told()).toEqual(['started', 'started']))
  expect([goneAfter, unread]).toEqual([[['started']], []])
})

test('a session whose keeper left what cannot be read is told, gets no other keeper, and goes on when it can be read', async () => {
  let isBroken = true
  const one = processes(null, undefined, { remains: (read) => (isBroken ? broken() : read()), clock: patientClock() })
  await one.ensure(session)
  await one.end(session, 'Stopped')
  const failure = {
    code: 'keeper_unavailable',
    message: `Cannot read what the keeper of session "${session}" left: EIO: i/o error, fdatasync`,
    hint: expect.stringContaining(foldersOf(root).outbox(session)) as string,
  }
  expect([unread, logged.length, gone, one.sessions]).toMatchObject([[failure], 1, [], []])

  // Nobody starts another, or takes for known what only that file says.
  for (const asked of [one.ensure(session), one.stands(session)]) await expect(asked).rejects.toMatchObject(failure)
  expect([keeperPids(), told().includes('left'), gone]).toEqual([[], false, []])

  isBroken = false
  await Promise.all([one.stands(session), one.ensure(session), one.ensure(session)])
  await vi.waitFor(() => expect(told()).toEqual(['started', 'leave', 'left', 'started']))
  expect([goneAfter, unread.length]).toEqual([[['started', 'leave', 'left']], 1])
})

test('reattach() throws where what a dead keeper left cannot be read, and has lost none; the next keeper comes behind it', async () => {
  await keepers.ensure(session)
  await vi.waitFor(() => expect(told()).toEqual(['started']))
  await keepers.detach()
  for (const pid of keeperPids()) process.kill(pid, 'SIGKILL')
  const outbox = await vi.waitFor(async () => {
    expect(keeperPids()).toEqual([])
    return openOutbox({ disk: folderDisk(foldersOf(root).outbox(session)), now: () => 1 })
  })
  outbox.append(session, { type: 'notice', body: { level: 'info', code: 'x', message: 'unheard' } })
  await outbox.close()
  let isBroken = true
  const next = processes(null, undefined, { remains: (read) => (isBroken ? broken() : read()), clock: patientClock() })
  let lost = 0
  await expect(next.reattach(session, () => void lost++)).rejects.toMatchObject({ code: 'keeper_unavailable' })
  expect([lost, told()]).toEqual([0, ['started']])
  isBroken = false
  await next.ensure(session)
  await vi.waitFor(() => expect(told()).toEqual(['started', 'unheard', 'started']))
  expect([lost, goneAfter]).toEqual([0, [['started', 'unheard']]])
})

test('end() does not wait for what cannot be read where the daemon is about to leave: the next one takes it in', async () => {
  let reads = 0
  const remains: Remaining = () => (reads++, broken())
  const one = processes(null, undefined, { remains })
  await one.ensure(session)
  one.startNoMore()
  await one.end(session, 'Anchorhold was shut down')
  expect([reads, gone]).toEqual([1, []])
  await one.detach()
  const next = processes()
  expect(await next.reattach(session)).toBe(false)
  expect(told()).toEqual(['started', 'leave', 'left'])
})

test('people are told once that a dead keeper has lost its records, however often the rest of them is read', async () => {
  await keepers.ensure(session)
  await keepers.end(session, 'Stopped')
  rmSync(foldersOf(root).outbox(session), { recursive: true })
  await (await openOutbox({ disk: folderDisk(foldersOf(root).outbox(session)), now: () => 1 })).close()
  let reads = 0
  const remains: Remaining = async (read) => {
    const left = await read()
    const records = (async function* () {
      if (++reads === 1) await broken()
      yield* left.records
    })()
    return { ...left, records }
  }
  await processes(null, undefined, { remains, clock: patientClock() }).reattach(session)
  expect([reads, told().filter((message) => message.includes('has lost its records')).length]).toEqual([2, 1])
})
