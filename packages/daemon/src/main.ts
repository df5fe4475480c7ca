// The daemon's process: builds every part and starts it.
//   node daemon.mjs [--state DIR] [--port N]
import { house as itself } from '@anchorhold/core/actors'
import { keepCompiledSoon } from '@anchorhold/link/keep-compiled'
import { systemClock } from '@anchorhold/link/clock'
import { takeLockOfKilled } from '@anchorhold/link/lock'
import { ownerMark } from '@anchorhold/link/owner'
import { sayReady, sayWhyNot } from '@anchorhold/link/stands'
import { endpointFile, tokenFile } from '@anchorhold/core/places'
import { Failure } from '@anchorhold/protocol/failures'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { setTimeout as wait } from 'node:timers/promises'
import { cliTokenName, makeToken, whoIs } from './app/people/access.ts'
import { finishArchives } from './app/sessions/archive.ts'
import { deliverAll } from './app/prompts/deliver.ts'
import { readConfig } from './config.ts'
import type { BehindPage } from './doors/http/behind-page.ts'
import { doorServer } from './doors/http/door-server.ts'
import { httpDoor } from './doors/http/http.ts'
import { readWeb } from './doors/http/web.ts'
import { folders as foldersOf, makeFolder, makeFolders } from './folders.ts'
import { house } from './house.ts'
import { replaceFile } from './policy/append-rule.ts'
import { boundLogs } from './processes/logs.ts'
import { reapAll, sessionsOnDisk } from './processes/reap.ts'
import { stageRuntime } from './processes/runtime.ts'
import { sqliteStore } from './store/sqlite/sqlite-store.ts'
import { transaction } from './transaction.ts'

const dist = dirname(fileURLToPath(import.meta.url))
const { version } = JSON.parse(readFileSync(join(dist, '../package.json'), 'utf8')) as { version: string }
const startedAt = Date.now()
const indexMs = 2000
const indexAgainMs = 100
const chainMs = 100
const recheckMs = 30_000
const logsMs = 60_000
const lastAnswersMs = 200
/** How long the end of cells that wait for a session is waited for. */
const readyCellsMs = 3000
const answerFirstMs = 30
const log = (message: string) => console.log(`${new Date().toISOString()} ${message}`)
/** What fails for want of room is said, and done another time: a daemon on a full disk is there to stop agents. */
function tryTo(what: string, work: () => unknown): void {
  try {
    work()
  } catch (error) {
    log(`Cannot ${what}: ${error instanceof Error ? error.message : String(error)}`)
  }
}

try {
  await main()
} catch (error) {
  const isExpected = error instanceof Failure
  if (isExpected) log(`${error.message}${error.hint === undefined ? '' : ` (${error.hint})`}`)
  else log(String((error as Error).stack ?? error))
  // What the system or the database says is for whoever runs this; what a bug says is for the log.
  const said = error instanceof Error && typeof (error as NodeJS.ErrnoException).code === 'string' ? `: ${error.message}` : ''
  sayWhyNot(isExpected ? error : new Failure('internal', `The daemon did not start${said}`))
  process.exit(isExpected && error.code === 'conflict' ? 75 : 1)
}

async function main(): Promise<void> {
  process.umask(0o077)
  const config = readConfig(process.argv.slice(2), process.env)
  const folders = foldersOf(config.state)
  makeFolders(folders, config.root)
  makeFolder(config.config, 0o700)
  const lock = await takeLockOfKilled(folders.lock, systemClock)
  if (lock === null)
    throw new Failure('conflict', `Another daemon uses the state folder "${config.state}"`, {
      hint: 'anchorhold status shows it',
    })

  const store = sqliteStore(folders.database)
  // Looked at before anything new is made; whose it is shows later, when nobody waits.
  const onDisk = sessionsOnDisk(folders)
  const runtime = { ...stageRuntime(dist, folders.runtime), engine: config.containerEngine }
  const { parts, inbox, reconcile } = house({ config, folders, store, runtime, onDisk, log })
  const { gate, keepers, sources } = parts
  let port = config.port
  const url = () => config.publicUrl ?? `http://localhost:${port}`
  const address = () => ({ port, publicUrl: config.publicUrl })
  let behind: Promise<BehindPage> | undefined
  const behindPage = () => (behind ??= openBehindPage())
  async function openBehindPage(): Promise<BehindPage> {
    // Whoever asks about sessions hears of them as they are: the page has no need to wait for that.
    const [door] = await Promise.all([import('./doors/http/behind-page.ts'), reconcile.findKeepers()])
    return door.behindPage({
      parts,
      about: { version, startedAt, url },
      shutdown,
      callers: {
        address,
        whoIs: (secret, role, from) => whoIs(parts, secret, role, from),
        trustedProxies: config.trustedProxies,
      },
    })
  }
  const web = readWeb(join(dist, 'web'))
  const server = doorServer(
    httpDoor({ address, api: async () => (await behindPage()).api, web, log }),
    (request, socket, head) =>
      void behindPage().then(
        ({ terminal }) => terminal(request, socket, head),
        () => socket.destroy(),
      ),
  )
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      reject(
        error.code === 'EADDRINUSE'
          ? new Failure('bad_request', `Cannot listen on 127.0.0.1:${config.port}: another program does`, {
              hint: 'Choose another: anchorhold up --detach --port 7778, or port in config.yaml',
            })
          : error,
      ),
    )
    server.listen(config.port, '127.0.0.1', resolve)
  })
  port = (server.address() as AddressInfo).port

  // Programs of the same user enter with this token; it is new at every start. Where nothing can be written, the one before it holds.
  tryTo('make a new token for the command line', () => {
    const { token, secret } = transaction(parts, (tx) => {
      // Who can read the state folder is an owner: the one who has been here longest.
      const user = tx.store.people.list().find(({ role }) => role === 'owner')!
      return makeToken(tx, itself, { user, name: cliTokenName, role: 'bearer', lifeMs: null })
    })
    // Between the two: a file that names a token which is not stored lets nobody in.
    replaceFile(tokenFile(config.state), secret)
    transaction(parts, ({ store: { tokens } }) => {
      for (const { id, name } of tokens.list()) if (name === cliTokenName && id !== token.id) tokens.remove(id)
    })
  })
  writeFileSync(
    endpointFile(config.state),
    JSON.stringify({ url: `http://127.0.0.1:${port}`, pid: process.pid, mark: ownerMark(), given: config.given }),
    {
      mode: 0o600,
    },
  )

  async function shutdown({ all }: { readonly all: boolean }): Promise<{ readonly left_running: number }> {
    // Those that are just being started as well: they live on.
    const running = keepers.sessions.length
    /** Those of which something goes on though it was ended. */
    let left = 0
    if (all) {
      keepers.startNoMore()
      const ended = keepers.sessions
      await Promise.all(ended.map((id) => keepers.end(id, 'Anchorhold was shut down', { unread: 'kept' })))
      left = (
        await Promise.all(
          ended.map((id) =>
            keepers.stands(id).then(
              () => 0,
              () => 1,
            ),
          ),
        )
      ).reduce((sum, one) => sum + one, 0)
    }
    // Without an agent at its windows the gate has nothing to do.
    const nobody = all || running === 0
    if (nobody) await gate.leave()
    setImmediate(() => void leave())
    return { left_running: nobody ? left : running }
  }
  let left = false
  async function leave(): Promise<void> {
    if (left) return
    left = true
    keepers.startNoMore()
    inbox.close()
    // Answers that are being written go out; streams are ended with the process.
    await Promise.race([new Promise((resolve) => server.close(resolve)), wait(lastAnswersMs)])
    await Promise.race([keepers.detach(), wait(readyCellsMs)])
    gate.detach()
    sources.flush()
    rmSync(endpointFile(config.state), { force: true })
    store.close()
    lock?.release()
    log('daemon left')
    process.exit(0)
  }
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => void leave())

  // The search index follows behind the log, a step at a time, and with others let in between where there is more.
  const index = (inMs: number) =>
    void setTimeout(() => {
      let isMore = false
      if (!left) tryTo('bring the search up to date', () => (isMore = store.index()))
      index(isMore ? indexAgainMs : indexMs)
    }, inMs).unref()
  index(indexMs)
  // Events that are older than the hash chain get their hashes the same way.
  const fillChains = () =>
    void setTimeout(() => {
      if (!left) tryTo('fill in the chain of hashes', () => store.chains.fill() && fillChains())
    }, chainMs).unref()
  fillChains()
  const tendLogs = () => boundLogs([folders.log, folders.gateLog, folders.rehearsalLog, folders.keepersLog])
  tendLogs()
  setInterval(tendLogs, logsMs).unref()
  // A token that runs out ends its streams soon after.
  setInterval(() => parts.watches.recheck(), recheckMs).unref()

  sayReady()
  keepCompiledSoon()
  // The rest of the program, other processes and the log's first line take a while: whoever waited for this one is answered first.
  await wait(answerFirstMs)
  log(`daemon ${version} on ${url()}, state in ${config.state}`)
  await Promise.all([behindPage(), parts.push.load()])
  // Whoever asks next wants to know what this machine can isolate: the look begins now.
  void parts.doctor({ fresh: false, rung: config.rung }).catch(() => {})
  keepers.makeReady()
  // Without a gate sessions say so, one by one; the daemon stays to be asked.
  await gate.ensure().catch((error: unknown) => log(error instanceof Error ? error.message : String(error)))
  deliverAll(parts)
  inbox.look()
  await finishArchives(parts).catch((error: unknown) => log(error instanceof Error ? error.message : String(error)))
  const worksIn = (workspace: string, uid: number | null) => store.sessions.isWorkedIn(workspace, uid)
  await reapAll({ folders, runtime, sessions: onDisk, isOwned: (id) => store.sessions.get(id) !== null, worksIn, log })
}
