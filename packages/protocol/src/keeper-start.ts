import { z } from 'zod'
import { AgentKind } from './agents.ts'
import { Authority } from './authority.ts'
import { PromptId, SessionId } from './ids.ts'
import { ContainerEngine, LimitName, Rung } from './rungs.ts'
import { Extras, Image, Network, RepoFilter } from './sessions.ts'
import { CheckedOut } from './workspace.ts'

/** What a session's cell is made of, and where. All of it can be known before there is a session for it. */
const Place = z.strictObject({
  session: SessionId,
  /** The daemon that starts the keeper. A keeper that finds that daemon gone before it holds its lock leaves again: another may have tended the
   *  session meanwhile, and what that one left has to be stored first. */
  started_by: z.int(),
  /** The session's own folder: outbox, socket, lock, agent home. */
  folder: z.string(),
  workspace: z.string(),
  /** The folder with the session's windows. */
  windows: z.string(),
  rung: Rung,
  /** The root folder of the session's image; null for the host's own programs. */
  root: z.string().nullable(),
  extras: Extras,
  /** Host files that are needed inside: Node; what forwards the cell's loopback; what makes text of pages; the program that starts
   *  processes in cells which have but one stream of bytes. */
  files: z.strictObject({
    ...{ node: z.string(), forwarder: z.string(), reader: z.string(), inside: z.string() },
    /** What makes containers; Podman without root where it is not said. */
    engine: z.optional(ContainerEngine),
  }),
  limits: z.object({
    memory_bytes: z.int(),
    processes: z.int(),
    cpus: z.number(),
    disk_bytes: z.int(),
    file_bytes: z.int(),
    open_files: z.int(),
    tmp_bytes: z.int(),
  }),
  /** Control group folders that were handed to the session's uid; empty where none could be. */
  cgroups: z.array(z.string()),
})

/** Which agent works in the cell: its driver, and its program on the host. */
const AgentProgram = z.strictObject({ driver: AgentKind, program: z.string(), version: z.string() })

/** The agent, what it goes on from, and how it is set up. */
const AgentPart = z.strictObject({
  ...AgentProgram.shape,
  model: z.string(),
  /** How the agent reaches its model window: by socket, or through a forwarder on the cell's own loopback. */
  model_route: z.enum(['socket', 'forwarder']),
  /** The agent's own id of the conversation; `resume` says whether it exists already. */
  conversation: z.uuid(),
  resume: z.boolean(),
  /** How many turns there were. */
  turns: z.int().min(0),
  /** The last messages that a fork is to know of, the newest first: what comes after the first of them that the agent has
   *  written down is forgotten. Empty for all to be kept. */
  forget_after: z.array(z.uuid()),
  /** Prompts of a turn that a crash cut short. The agent gets those that it has no memory of once more, before any other. */
  unfinished: z.array(z.object({ id: PromptId, text: z.string(), images: z.array(Image) })),
  /** Go on with that turn without being asked. */
  take_up: z.boolean(),
  /** What its repository had checked out, as far as the log says: only what differs is told. */
  checked_out: CheckedOut,
  tools: z.array(z.string()).nullable(),
  system_prompt: z.string().nullable(),
  plan: z.boolean(),
  workspace_settings: z.enum(['ignore', 'load']),
})

/** What the session may see, use and reach, and for how long. */
const PolicyPart = z.strictObject({
  authority: Authority,
  /** Limits without which the cell must not stand. */
  require_limits: z.array(LimitName),
  timeout_ms: z.int().nullable(),
  idle_ms: z.int(),
  /** The same for a keeper that was started ahead of a prompt which did not come. */
  unused_ms: z.int(),
  /** The workspace is a copy without history: it gets a first commit of its own. */
  snapshot: z.boolean(),
  /** Which files of the workspace the cell does not see. */
  repo_filter: RepoFilter,
  /** The folder where it is remembered which files were hidden in this workspace before. */
  hidden: z.string(),
  /** A folder of downloads that it shares with other sessions of its workspace; null for none. */
  caches: z.string().nullable(),
  toolchains: z.array(z.string()),
  /** Whose home the toolchains are looked for in. */
  owner_home: z.string(),
  git_identity: z.object({ name: z.string(), email: z.string() }).nullable(),
  /** What the cell reaches beside its model. With `proxy_only` its programs find the net window on the cell's loopback. */
  network: Network,
  /** Certificates that programs in the cell trust beside the usual ones: the session's own authority, and those of the owner's. */
  net_ca: z.string().nullable(),
  /** Hosts of git forges, whose addresses for ssh are taken for those of HTTPS. */
  forges: z.array(z.string()),
  /** Variables of the cell's programs: placeholders of secrets, and the like. */
  env: z.record(z.string(), z.string()),
  /** How the gate is started, should it die while the daemon is away; null where only the daemon can. */
  gate: z.strictObject({ node: z.string(), script: z.string(), folder: z.string(), log: z.string() }).nullable(),
})

/** What a keeper is started with, on its standard input. It holds no secret. Only a daemon and the keepers that it starts itself speak it, so
 *  it has no older versions. */
export const KeeperStart = z.strictObject({ place: Place, agent: AgentPart, policy: PolicyPart })
export type KeeperStart = z.infer<typeof KeeperStart>

/** What a keeper is told before there is a session for it: enough to have its cell stand by then. A line of its own, ahead of
 *  the `KeeperStart`. */
export const KeeperPlace = z.strictObject({ place: Place, agent: AgentProgram })
export type KeeperPlace = z.infer<typeof KeeperPlace>
