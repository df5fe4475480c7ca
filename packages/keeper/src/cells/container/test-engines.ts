import { spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { identify, isGone, signalPid, until } from '../limits/processes.ts'
import { ask, type ServedEngine, type ServedName } from './served-engine.ts'

/** An engine of root's for tests alone: its store, its sockets and its network are its own, and go with it. */
export type TestEngine = AsyncDisposable & { readonly engine: ServedEngine }

/** Why there can be none here, in words, or the engine. */
export async function startTestEngine(name: ServedName): Promise<TestEngine | string> {
  if (process.getuid?.() !== 0) return "an engine of root's can only be started by root"
  const program = name === 'docker' ? '/usr/sbin/dockerd' : '/usr/bin/podman'
  if (!existsSync(program)) return `${program} is not installed`
  const folder = mkdtempSync(join(tmpdir(), 'ahe-'))
  chmodSync(folder, 0o711)
  const engine = { name, socket: join(folder, 'sock') }
  const argv = name === 'docker' ? dockerd(program, folder, engine.socket) : podmanService(program, folder, engine.socket)
  let said = ''
  // It goes with the tests, also where none of them was to be run.
  const inOwn = ['--pdeathsig', 'TERM', 'unshare', '--net', '--mount', 'sh', '-c', 'ip link set lo up; exec "$@"', 'sh', ...argv]
  const child = spawn('setpriv', inOwn, { env: env(folder), cwd: folder, stdio: ['ignore', 'ignore', 'pipe'], detached: true })
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-2000)))
  const id = identify(child.pid!)!
  const stop = async () => {
    if (!isGone(id)) signalPid(id.pid, 'SIGTERM')
    await until('the engine has ended', 20_000, () => isGone(id))
    rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
  }
  try {
    await until('the engine listens', 30_000, () => existsSync(engine.socket) || isGone(id))
    await ask(engine, ['version'])
    return { engine, [Symbol.asyncDispose]: stop }
  } catch (error) {
    await stop()
    return `${program} does not start: ${String(error)} ${said.trim()}`
  }
}

const dockerd = (program: string, folder: string, socket: string) => [
  ...[program, '--data-root', join(folder, 'data'), '--exec-root', join(folder, 'exec'), '--pidfile', join(folder, 'pid')],
  ...['--host', `unix://${socket}`, '--bridge', 'none', '--iptables=false', '--ip6tables=false', '--ip-forward=false'],
]

/** This machine's control groups may be of both versions, which crun refuses. */
function podmanService(program: string, folder: string, socket: string): string[] {
  for (const name of ['store', 'state']) mkdirSync(join(folder, name))
  const lines = ['[containers]', 'default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]', '[engine]', 'runtime = "runc"']
  writeFileSync(
    join(folder, 'containers.conf'),
    [...lines, 'cgroup_manager = "cgroupfs"', 'events_logger = "none"', ''].join('\n'),
  )
  const storage = ['[storage]', 'driver = "overlay"', `graphroot = "${folder}/store"`, `runroot = "${folder}/state"`, '']
  writeFileSync(join(folder, 'storage.conf'), storage.join('\n'))
  return [
    program,
    '--root',
    join(folder, 'store'),
    '--runroot',
    join(folder, 'state'),
    'system',
    'service',
    '--time',
    '0',
    `unix://${socket}`,
  ]
}

const env = (folder: string) => ({
  PATH: '/usr/sbin:/usr/bin:/sbin:/bin',
  HOME: folder,
  CONTAINERS_CONF: join(folder, 'containers.conf'),
  CONTAINERS_STORAGE_CONF: join(folder, 'storage.conf'),
})
