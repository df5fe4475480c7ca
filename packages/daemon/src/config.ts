import { Failure } from '@anchorhold/protocol/failures'
import type { Network, OnCrash, RepoFilter, Spend } from '@anchorhold/protocol/sessions'
import { type ContainerEngine, type LimitName, type Rung, usualRung } from '@anchorhold/protocol/rungs'
import { type Forge, readConfigFile } from './config-file.ts'
import { readPasswordHash } from './logins/passwords.ts'
import type { Pool } from './processes/ready-cells.ts'
import { places, statePathBytesMax } from '@anchorhold/core/places'
import { readFileSync } from 'node:fs'
import { availableParallelism, homedir, totalmem, userInfo } from 'node:os'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'

const gib = 1024 ** 3
/** A spare keeper takes about 70 MiB, which a machine of this size does not miss. */
const spareMemoryBytes = 4 * gib

export type Config = {
  readonly state: string
  readonly config: string
  readonly home: string
  readonly root: boolean
  readonly port: number
  /** What flags said, for a daemon that is started in the place of this one if it should be killed. */
  readonly given: { readonly port: string | null; readonly publicUrl: string | null }
  readonly publicUrl: string | null
  readonly trustedProxies: number
  readonly passwordHash: string | null
  readonly rung: Rung
  readonly image: string | null
  readonly containerEngine: ContainerEngine
  readonly repoFilter: RepoFilter
  readonly onCrash: OnCrash
  readonly spend: Spend
  readonly network: Network
  readonly mirrors: Readonly<Record<string, string>>
  /** Certificates, as PEM. */
  readonly netCa: string | null
  readonly forges: Readonly<Record<string, Forge>>
  readonly keyStore: 'file' | 'keyring'
  readonly idleMs: number
  readonly spareKeeper: boolean
  readonly warmMs: number
  readonly pools: Readonly<Partial<Record<Rung, Pool>>>
  readonly pins: Readonly<Record<string, Rung>>
  readonly sharedFolders: readonly string[]
  readonly workspaceRoots: readonly string[]
  readonly modelRoute: 'socket' | 'forwarder'
  readonly modelAllow: readonly string[]
  readonly limits: {
    readonly memory_bytes: number
    readonly processes: number
    readonly cpus: number
    readonly disk_bytes: number
    readonly file_bytes: number
    readonly open_files: number
    readonly tmp_bytes: number
  }
  readonly caches: { readonly shared: boolean; readonly sizeBytes: number }
  readonly pushHosts: ReadonlySet<string>
  readonly diskLowBytes: number
  readonly requireLimits: readonly LimitName[]
  /** Only what providers name of it is ever handed on, and only to the gate. */
  readonly env: Readonly<Record<string, string | undefined>>
}

/** File, then environment, then flags; parsed once. This is the one file of the daemon that reads the environment. */
export function readConfig(
  argv: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  memoryBytes = totalmem(),
): Config {
  const { values } = parseArgs({
    args: [...argv],
    options: { state: { type: 'string' }, port: { type: 'string' }, 'public-url': { type: 'string' } },
  })
  const uid = process.getuid?.() ?? -1
  // An empty HOME is one that was not set.
  const home = homedir() || userInfo().homedir
  const where = places({ uid, home, env, stateFlag: values.state ?? null })
  const state = resolve(where.state)
  if (Buffer.byteLength(state) > statePathBytesMax) {
    throw new Failure(
      'bad_request',
      `Cannot use the state folder "${state}": its path is longer than ${statePathBytesMax} bytes`,
      {
        hint: 'Unix sockets below it would have no room: choose a shorter one with --state',
      },
    )
  }
  const file = readConfigFile(`${resolve(where.config)}/config.yaml`)
  const port = values.port ?? env.ANCHORHOLD_PORT
  const publicUrl = values['public-url'] ?? file.public_url
  const passwordHash = env.PASSWORD_HASH ?? file.password_hash
  const bytes = (size: number) => Math.round(size * gib)
  return Object.freeze({
    state,
    config: resolve(where.config),
    home,
    root: uid === 0,
    port: port === undefined ? file.port : portOf(port),
    given: { port: values.port ?? null, publicUrl: values['public-url'] ?? null },
    publicUrl: publicUrl === undefined ? null : publicUrlOf(publicUrl),
    trustedProxies: file.trusted_proxies,
    passwordHash: passwordHash === undefined ? null : readPasswordHash(passwordHash),
    rung: file.rung ?? usualRung(process.platform),
    image: file.image ?? null,
    containerEngine: file.container_engine,
    repoFilter: file.repo_filter,
    onCrash: file.on_crash,
    spend: file.spend,
    network: file.network,
    mirrors: file.mirrors,
    netCa: file.net_ca === undefined ? null : readCertificates(file.net_ca),
    forges: file.forges,
    keyStore: keyStoreOf(file.key_store, uid),
    idleMs: file.idle_seconds * 1000,
    spareKeeper: file.spare_keeper ?? memoryBytes >= spareMemoryBytes,
    warmMs: file.warm_seconds * 1000,
    pools: Object.fromEntries(
      Object.entries(file.pools).map(([rung, { min, max, idle_seconds, scale_up_threshold }]) => [
        rung,
        { min, max: Math.max(min, max), idleMs: idle_seconds * 1000, scaleUpThreshold: scale_up_threshold },
      ]),
    ),
    pins: file.pins,
    sharedFolders: file.shared_folders.map((folder) => resolve(folder)),
    workspaceRoots: (file.workspace_roots ?? [home]).map((folder) => resolve(folder)),
    modelRoute: file.model_route,
    modelAllow: file.model_allow,
    limits: {
      memory_bytes: Math.min(bytes(file.limits.memory_gib), totalmem()),
      processes: file.limits.processes,
      cpus: Math.min(file.limits.cpus, availableParallelism()),
      disk_bytes: bytes(file.limits.disk_gib),
      file_bytes: bytes(file.limits.file_gib),
      open_files: file.limits.open_files,
      tmp_bytes: bytes(file.limits.tmp_gib),
    },
    caches: { shared: file.caches.shared, sizeBytes: bytes(file.caches.size_gib) },
    pushHosts: new Set(file.push_hosts),
    diskLowBytes: bytes(file.disk_low_gib),
    requireLimits: file.require_limits,
    env,
  })
}

/** A keyring is a person's; root's gate is a user of its own, and nobody logs in as that. */
function keyStoreOf(asked: 'file' | 'keyring', uid: number): 'file' | 'keyring' {
  if (asked === 'file' || uid !== 0) return asked
  throw new Failure('bad_request', "Cannot keep the key in a keyring: a daemon of root's has none", {
    hint: 'Leave key_store out of config.yaml: the key file can be read by the gate alone; or set ENCRYPTION_KEY',
  })
}

function portOf(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Infinity
  if (port > 65_535) throw new Failure('bad_request', `Cannot listen on the port "${text}": it is not a number from 0 to 65535`)
  return port
}

/** What people type: an origin, without a path that nothing would be served under. */
function publicUrlOf(text: string): string {
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol) || url.pathname !== '/' || url.search !== '' || url.username !== '')
    throw new Failure('bad_request', `Cannot use the public URL "${text}": it is no http or https address without a path`, {
      hint: 'For example https://agents.example',
    })
  return url.origin
}

function readCertificates(path: string): string {
  let text = ''
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    throw new Failure('bad_request', `Cannot read net_ca "${path}": ${error instanceof Error ? error.message : String(error)}`)
  }
  if (text.includes('-----BEGIN CERTIFICATE-----') && !text.includes('PRIVATE KEY-----')) return text
  throw new Failure('bad_request', `Cannot use net_ca "${path}": it is not a file of PEM certificates alone`)
}
