import { issuesInWords } from './issue-words.ts'
import { Failure } from '@anchorhold/protocol/failures'
import { PushRule } from '@anchorhold/protocol/forges'
import { ImageName, Network, OnCrash, RepoFilter, Spend } from '@anchorhold/protocol/sessions'
import { ContainerEngine, LimitName, Rung, usualRung } from '@anchorhold/protocol/rungs'
import { readPasswordHash } from './logins/passwords.ts'
import { SeedConfig } from './policy/seed-names.ts'
import type { Pool } from './processes/places.ts'
import { authorityOf, connectTarget, hostTarget } from '@anchorhold/core/net/target'
import { places, statePathBytesMax } from '@anchorhold/core/places'
import { existsSync, readFileSync } from 'node:fs'
import { availableParallelism, homedir, totalmem, userInfo } from 'node:os'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { parse } from 'yaml'
import { z } from 'zod'

const gib = 1024 ** 3
/** A spare keeper takes about 70 MiB, which a machine of this size does not miss. */
const spareMemoryBytes = 4 * gib

const PoolFile = z.strictObject({
  min: z.int().min(0).max(100).default(1).describe('So many keepers stand at least, busy ones included'),
  max: z.int().min(1).max(100).default(5).describe('No place is started beyond so many'),
  idle_seconds: z.int().min(1).max(86_400).default(300).describe('A place beyond min that nobody took for so long is given up'),
  scale_up_threshold: z.number().min(0).max(1).default(0.8).describe('One more is started when this part of them is busy'),
})

const MirroredHost = z.string().transform((text, context) => {
  const target = hostTarget(text, 443)
  if (!('misnamed' in target)) return authorityOf(target)
  context.addIssue({ code: 'custom', message: `not a host, or a host and port: ${target.misnamed}` })
  return z.NEVER
})
const MirrorPlace = z.string().refine((text) => {
  const target = connectTarget(text)
  return !('misnamed' in target) && target.isAddress
}, 'write an address and a port, as 10.0.0.5:4873')

const Forge = z.strictObject({
  api: z.string().min(1).max(253).optional().describe('The host of its API; api.github.com for github.com'),
  push: PushRule.prefault({}),
})

/** `config.yaml`: every key has a default. */
export const ConfigFile = z.strictObject({
  port: z.int().min(0).max(65_535).default(7777).describe('The loopback port of the HTTP door'),
  public_url: z.url().optional().describe('The address under which a proxy of yours serves the HTTP door'),
  trusted_proxies: z
    .int()
    .min(0)
    .max(5)
    .default(0)
    .describe(
      'How many proxies of yours stand before the HTTP door: the address of a device is read that far from the end of X-Forwarded-For',
    ),
  password_hash: z
    .string()
    .optional()
    .describe("The first owner's password until one is set: a PHC string of Argon2 or its base64; also PASSWORD_HASH"),
  rung: Rung.optional().describe('The rung of sessions that name none; `bwrap` otherwise, and on macOS `seatbelt`'),
  image: ImageName.optional().describe(
    "The image of containers and machines that name none; containers use the host's own programs otherwise, machines `base`",
  ),
  container_engine: ContainerEngine.default('podman').describe(
    'What makes containers: podman, which needs no root; or podman-rootful or docker, for a user who may use its socket',
  ),
  repo_filter: RepoFilter.default('standard').describe(
    'Which files of a host folder a cell does not see: none, standard, strict, or { denylist, allowlist } of patterns',
  ),
  on_crash: OnCrash.default('wait').describe(
    'What sessions that say nothing of it do when a crash cuts a turn short: wait for a person, or resume it',
  ),
  spend: Spend.default('stop').describe(
    'What sessions that say nothing of it do when the budget does not hold a model call: stop, or ask',
  ),
  network: Network.exclude(['host'])
    .default('proxy_only')
    .describe('What cells of sessions that say nothing of it reach beside their model: none, or proxy_only for what rules open'),
  mirrors: z
    .record(MirroredHost, MirrorPlace)
    .default({})
    .describe(
      'Places of yours to which calls of cells for these hosts go, as `registry.npmjs.org: 10.0.0.5:4873`; the certificate there must be for the host',
    ),
  net_ca: z
    .string()
    .startsWith('/')
    .optional()
    .describe('A file with certificates of authorities (PEM) that gate and cells trust beside those that the machine does'),
  forges: z
    .record(z.string().regex(/^[a-z0-9-]+(\.[a-z0-9-]+)+$/, { error: 'not the name of a host, in small letters' }), Forge)
    .default({})
    .describe(
      'Git forges by their hosts, as `github.com: { push: { branches: ["agent/*"] } }`; each session has its own repository there',
    ),
  key_store: z
    .enum(['file', 'keyring'])
    .default('file')
    .describe(
      "Where the key is that secrets are encrypted under, unless ENCRYPTION_KEY is set: a file of the gate's, or the keyring of your desktop (secret-tool, on macOS security)",
    ),
  idle_seconds: z.int().min(1).max(86_400).default(300).describe('A keeper leaves when its session has been idle for so long'),
  spare_keeper: z
    .boolean()
    .optional()
    .describe(
      'Keep a process at hand that has loaded the agent SDK, so that a new session starts faster; on where there is memory for it',
    ),
  warm_seconds: z
    .int()
    .min(1)
    .max(3600)
    .default(60)
    .describe('A cell that was started ahead of its first prompt is let go when none has come for so long'),
  pools: z
    .partialRecord(Rung, PoolFile)
    .default({})
    .describe('For each rung, how many keepers stand ready with their cells started: min, max, idle_seconds, scale_up_threshold'),
  pins: z
    .record(z.string(), Rung)
    .default({})
    .describe('Whose sessions, by the name of the user or of the token, are always of which rung'),
  shared_folders: z
    .array(z.string().startsWith('/'))
    .default([])
    .describe('Host folders below which members and agents may work; owners may anywhere'),
  workspace_roots: z
    .array(z.string().startsWith('/'))
    .optional()
    .describe(
      'Host folders below which the web app lets an owner choose one (default: the home of the user that the daemon runs as)',
    ),
  model_route: z
    .enum(['socket', 'forwarder'])
    .default('socket')
    .describe("How an agent reaches its model window: by socket, or through a forwarder on the cell's loopback"),
  model_allow: z
    .array(z.string())
    .default([])
    .describe(
      'What the model window lets through beyond what agents need, by name: field:mcp_servers, tool:web_search_20250305, source:url, variant:online',
    ),
  limits: z
    .strictObject({
      memory_gib: z.number().positive().default(4).describe('Memory of all its processes'),
      processes: z.int().min(16).default(512).describe('Processes and threads'),
      cpus: z.number().positive().default(2).describe('Processors, as far as the machine has them'),
      disk_gib: z.number().positive().default(20).describe('How much workspace and home may grow'),
      file_gib: z.number().positive().default(4).describe('Size of one file'),
      open_files: z.int().min(256).default(4096).describe('Open files of one process'),
      tmp_gib: z.number().positive().default(1).describe('Size of /tmp, and of /dev/shm'),
    })
    .prefault({})
    .describe('What one cell may use'),
  push_hosts: z
    .array(z.string().regex(/^[a-z0-9.-]{1,253}:\d{1,5}$/, 'host:port'))
    .default([])
    .describe('Push services of your own network that devices may name, as host:port; all others must be public'),
  disk_low_gib: z
    .number()
    .min(0)
    .default(2)
    .describe('With less room than this where the state folder lies, status and web app say so'),
  caches: z
    .strictObject({
      shared: z
        .boolean()
        .default(true)
        .describe('Whether sessions of one person in one host folder share what npm, Yarn, pip, Cargo and Go download'),
      size_gib: z
        .number()
        .positive()
        .default(10)
        .describe('What all of them may take together; the one that was longest not used goes first'),
    })
    .prefault({})
    .describe('Downloads that outlive a session'),
  require_limits: z
    .array(LimitName)
    .default([])
    .describe('Limits without which no session starts: memory, processes, cpu, disk, file_size, open_files, tmp'),
})

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
  readonly forges: Readonly<Record<string, z.output<typeof Forge>>>
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
  const file = readFile(`${resolve(where.config)}/config.yaml`)
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

function readFile(path: string): z.output<typeof ConfigFile> {
  const source = existsSync(path) ? readFileSync(path, 'utf8') : ''
  let raw: unknown
  try {
    // A file of comments alone says nothing.
    raw = source === '' ? {} : (parse(source) ?? {})
  } catch (error) {
    throw new Failure('bad_request', `Cannot read "${path}": ${error instanceof Error ? error.message : String(error)}`)
  }
  // Read once: to compile a parser for it would take longer than parsing does.
  const parsed = SeedConfig.pipe(ConfigFile).safeParse(raw, { jitless: true })
  if (!parsed.success)
    throw new Failure('bad_request', `Cannot use "${path}": ${issuesInWords(parsed.error)}`, {
      hint: 'docs/operating.md has every key',
    })
  return parsed.data
}
