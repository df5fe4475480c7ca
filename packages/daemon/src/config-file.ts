import { authorityOf, connectTarget, hostTarget } from '@anchorhold/core/net/target'
import { Failure } from '@anchorhold/protocol/failures'
import { PushRule } from '@anchorhold/protocol/forges'
import { ContainerEngine, LimitName, Rung } from '@anchorhold/protocol/rungs'
import { ImageName, Network, OnCrash, RepoFilter, Spend } from '@anchorhold/protocol/sessions'
import { existsSync, readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { z } from 'zod'
import { issuesInWords } from './issue-words.ts'
import { SeedConfig } from './policy/seed-names.ts'

/** What a file says that says nothing. A daemon without one takes it as it is: to build the schema and to parse by it is a good part
 *  of a start. */
const usual = {
  port: 7777,
  trusted_proxies: 0,
  container_engine: 'podman' as const,
  repo_filter: 'standard' as const,
  on_crash: 'wait' as const,
  spend: 'stop' as const,
  network: 'proxy_only' as const,
  mirrors: {},
  forges: {},
  key_store: 'file' as const,
  idle_seconds: 300,
  warm_seconds: 60,
  pools: {},
  pins: {},
  shared_folders: [],
  model_route: 'socket' as const,
  model_allow: [],
  limits: { memory_gib: 4, processes: 512, cpus: 2, disk_gib: 20, file_gib: 4, open_files: 4096, tmp_gib: 1 },
  push_hosts: [],
  disk_low_gib: 2,
  caches: { shared: true, size_gib: 10 },
  require_limits: [],
}

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
export type Forge = z.output<typeof Forge>

/** `config.yaml`: every key has a default. */
export const ConfigFile = z.strictObject({
  port: z.int().min(0).max(65_535).default(usual.port).describe('The loopback port of the HTTP door'),
  public_url: z.url().optional().describe('The address under which a proxy of yours serves the HTTP door'),
  trusted_proxies: z
    .int()
    .min(0)
    .max(5)
    .default(usual.trusted_proxies)
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
  container_engine: ContainerEngine.default(usual.container_engine).describe(
    'What makes containers: podman, which needs no root; or podman-rootful or docker, for a user who may use its socket',
  ),
  repo_filter: RepoFilter.default(usual.repo_filter).describe(
    'Which files of a host folder a cell does not see: none, standard, strict, or { denylist, allowlist } of patterns',
  ),
  on_crash: OnCrash.default(usual.on_crash).describe(
    'What sessions that say nothing of it do when a crash cuts a turn short: wait for a person, or resume it',
  ),
  spend: Spend.default(usual.spend).describe(
    'What sessions that say nothing of it do when the budget does not hold a model call: stop, or ask',
  ),
  network: Network.exclude(['host'])
    .default(usual.network)
    .describe('What cells of sessions that say nothing of it reach beside their model: none, or proxy_only for what rules open'),
  mirrors: z
    .record(MirroredHost, MirrorPlace)
    .default(usual.mirrors)
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
    .default(usual.forges)
    .describe(
      'Git forges by their hosts, as `github.com: { push: { branches: ["agent/*"] } }`; each session has its own repository there',
    ),
  key_store: z
    .enum(['file', 'keyring'])
    .default(usual.key_store)
    .describe(
      "Where the key is that secrets are encrypted under, unless ENCRYPTION_KEY is set: a file of the gate's, or the keyring of your desktop (secret-tool, on macOS security)",
    ),
  idle_seconds: z
    .int()
    .min(1)
    .max(86_400)
    .default(usual.idle_seconds)
    .describe('A keeper leaves when its session has been idle for so long'),
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
    .default(usual.warm_seconds)
    .describe('A cell that was started ahead of its first prompt is let go when none has come for so long'),
  pools: z
    .partialRecord(Rung, PoolFile)
    .default(usual.pools)
    .describe('For each rung, how many keepers stand ready with their cells started: min, max, idle_seconds, scale_up_threshold'),
  pins: z
    .record(z.string(), Rung)
    .default(usual.pins)
    .describe('Whose sessions, by the name of the user or of the token, are always of which rung'),
  shared_folders: z
    .array(z.string().startsWith('/'))
    .default(usual.shared_folders)
    .describe('Host folders below which members and agents may work; owners may anywhere'),
  workspace_roots: z
    .array(z.string().startsWith('/'))
    .optional()
    .describe(
      'Host folders below which the web app lets an owner choose one (default: the home of the user that the daemon runs as)',
    ),
  model_route: z
    .enum(['socket', 'forwarder'])
    .default(usual.model_route)
    .describe("How an agent reaches its model window: by socket, or through a forwarder on the cell's loopback"),
  model_allow: z
    .array(z.string())
    .default(usual.model_allow)
    .describe(
      'What the model window lets through beyond what agents need, by name: field:mcp_servers, tool:web_search_20250305, source:url, variant:online',
    ),
  limits: z
    .strictObject({
      memory_gib: z.number().positive().default(usual.limits.memory_gib).describe('Memory of all its processes'),
      processes: z.int().min(16).default(usual.limits.processes).describe('Processes and threads'),
      cpus: z.number().positive().default(usual.limits.cpus).describe('Processors, as far as the machine has them'),
      disk_gib: z.number().positive().default(usual.limits.disk_gib).describe('How much workspace and home may grow'),
      file_gib: z.number().positive().default(usual.limits.file_gib).describe('Size of one file'),
      open_files: z.int().min(256).default(usual.limits.open_files).describe('Open files of one process'),
      tmp_gib: z.number().positive().default(usual.limits.tmp_gib).describe('Size of /tmp, and of /dev/shm'),
    })
    .prefault({})
    .describe('What one cell may use'),
  push_hosts: z
    .array(z.string().regex(/^[a-z0-9.-]{1,253}:\d{1,5}$/, 'host:port'))
    .default(usual.push_hosts)
    .describe('Push services of your own network that devices may name, as host:port; all others must be public'),
  disk_low_gib: z
    .number()
    .min(0)
    .default(usual.disk_low_gib)
    .describe('With less room than this where the state folder lies, status and web app say so'),
  caches: z
    .strictObject({
      shared: z
        .boolean()
        .default(usual.caches.shared)
        .describe('Whether sessions of one person in one host folder share what npm, Yarn, pip, Cargo and Go download'),
      size_gib: z
        .number()
        .positive()
        .default(usual.caches.size_gib)
        .describe('What all of them may take together; the one that was longest not used goes first'),
    })
    .prefault({})
    .describe('Downloads that outlive a session'),
  require_limits: z
    .array(LimitName)
    .default(usual.require_limits)
    .describe('Limits without which no session starts: memory, processes, cpu, disk, file_size, open_files, tmp'),
})
export type ConfigFile = z.output<typeof ConfigFile>

/** Reads `config.yaml`; its owner wrote it, and it may still be anything. */
export function readConfigFile(path: string): ConfigFile {
  if (!existsSync(path)) return usual
  let raw: unknown
  try {
    raw = parse(readFileSync(path, 'utf8'))
  } catch (error) {
    throw new Failure('bad_request', `Cannot read "${path}": ${error instanceof Error ? error.message : String(error)}`)
  }
  // A file of comments alone says nothing.
  if (raw === null || raw === undefined) return usual
  // Read once: to compile a parser for it would take longer than parsing does.
  const parsed = SeedConfig.pipe(ConfigFile).safeParse(raw, { jitless: true })
  if (!parsed.success)
    throw new Failure('bad_request', `Cannot use "${path}": ${issuesInWords(parsed.error)}`, {
      hint: 'docs/operating.md has every key',
    })
  return parsed.data
}
