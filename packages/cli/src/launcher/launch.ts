// Cells without a daemon: `anchorhold sandbox` and `anchorhold claude`. A program of its own, so that the command line stays small.
import { rootFor } from '@anchorhold/daemon/app/keepers/images'
import { forgeSettings } from '@anchorhold/daemon/app/workspace/repos'
import { type Config, readConfig } from '@anchorhold/daemon/config'
import { type Folders, folders as foldersOf, makeFolder, makeFolders } from '@anchorhold/daemon/folders'
import { keyEnv } from '@anchorhold/daemon/processes/gate-process'
import { reapLaunched } from '@anchorhold/daemon/processes/reap'
import { type Runtime, stageRuntime } from '@anchorhold/daemon/processes/runtime'
import { giveTree } from '@anchorhold/daemon/workspace/trees'
import { agentMounts, claudeEnvironment } from '@anchorhold/keeper/agents/claude/environment'
import { cellEnvironment } from '@anchorhold/keeper/cell-environment'
import { trustEnvironment, trustFolder, trustInside, writeTrust } from '@anchorhold/keeper/trust'
import { netEnvironment, netRoutes } from '@anchorhold/keeper/agents/net-route'
import type { Cell } from '@anchorhold/keeper/cells/cell'
import { noExtras } from '@anchorhold/protocol/sessions'
import { settingsEnvironment, writeSettings } from '@anchorhold/keeper/cell-settings'
import { cellLimits } from '@anchorhold/keeper/cell-spec'
import { drivers } from '@anchorhold/keeper/cells/drivers'
import { findToolchains, type Toolchain } from '@anchorhold/keeper/cells/toolchains'
import { requireToolchains } from '@anchorhold/keeper/outfit'
import { putNetFiles } from '@anchorhold/keeper/net-files'
import { coverWorkspace } from '@anchorhold/keeper/repo-filter/covers'
import { hiddenMemory } from '@anchorhold/keeper/repo-filter/memory'
import { keepTracked } from '@anchorhold/keeper/repo-filter/tracked'
import { hiddenFolderOf } from '@anchorhold/daemon/workspace/hidden-folder'
import { requireLimits } from '@anchorhold/keeper/require-limits'
import { beginHistory } from '@anchorhold/keeper/snapshot'
import { newSessionId } from '@anchorhold/protocol/ids'
import { type Rung, slownessOf } from '@anchorhold/protocol/rungs'
import type { RepoFilter, WorkspaceAccess } from '@anchorhold/protocol/sessions'
import { randomBytes } from 'node:crypto'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { attached } from './attached.ts'
import { type Bridge, relayTo } from './bridge.ts'
import { type Ground, prepareGround } from './ground.ts'
import { blockedWords, housePolicy, type LaunchNetwork } from './house-policy.ts'
import { netPlaceholders, netTerms, repoOf } from './net-terms.ts'
import { type PrivateGate, privateGate } from './private-gate.ts'
import { type Chosen, chooseProvider, rehearsal } from './provider.ts'

export type LaunchOptions = {
  readonly stateFlag: string | undefined
  readonly workspace: string
  readonly access: WorkspaceAccess | null
  readonly rung: Rung | null
  readonly image: string | null
  readonly repoFilter: RepoFilter | null
  /** Read-only, each as `source:target`. */
  readonly mounts: readonly { readonly source: string; readonly target: string }[]
  readonly toolchains: readonly string[]
  /** Null where nothing is said of it. */
  readonly network: LaunchNetwork | null
  readonly bridge: (Bridge & { readonly url: string }) | null
  /** What to run: a command, or the agent with these arguments of its own. */
  readonly command:
    | { readonly argv: readonly [string, ...string[]] }
    | { readonly agentArgs: readonly string[]; readonly provider: string | null; readonly budgetNanos: number | null }
  /** Tells what a person who asked for it wants to know. */
  readonly say: (line: string) => void
  /** Tells what a person must know. */
  readonly warn: (line: string) => void
  /** Tells what a person must not miss, before anything runs. */
  readonly alarm: (line: string) => void
}

const startTimeoutMs = 120_000
/** Runs a command in a cell on this terminal, and gives its exit code. Nothing of the cell is left behind. */
export async function launch(options: LaunchOptions): Promise<number> {
  const config = readConfig(options.stateFlag === undefined ? [] : ['--state', options.stateFlag], process.env)
  const folders = foldersOf(config.state)
  makeFolders(folders, config.root)
  const runtime = stageRuntime(dirname(fileURLToPath(import.meta.url)), folders.runtime)
  const house: House = { config, folders, runtime }
  const held = housePolicy(config, folders.policies, options)
  const { rung, network } = held
  const { access } = options
  if (held.isKept)
    options.warn('policy.yaml is empty or gone: the one before it stays in force. Where that is meant: anchorhold policy reload')
  const agent = 'agentArgs' in options.command ? options.command : null
  const chosen = agent === null ? rehearsal : chooseProvider(folders.database, agent.provider, process.env)
  const budgetNanos = agent === null ? null : held.budgetAt(chosen.provider, agent.budgetNanos)

  await using undone = new AsyncDisposableStack()
  // What another run left is not in the way of this one.
  await reapLaunched(folders, runtime, (why) => options.warn(why.split('\n')[0]!))
  const asked = { workspace: options.workspace, access, isAgent: agent !== null }
  const ground = await prepareGround({ ...house, warn: options.warn }, asked, undone)
  const { base, workspace, home, windows, scratch, cgroups, runAs } = ground
  // A copy goes with the cell, and so does what is known of it. This process writes it, as whoever it runs as.
  const hidden = workspace.startsWith(`${base}/`) ? base : hiddenFolderOf(folders, workspace, null)
  // Also without a wall: what cannot be hidden there is refused by the driver, and not shown.
  const covers = await coverWorkspace(workspace, held.repoFilter, join(base, 'covers'), hiddenMemory(hidden, held.repoFilter))
  const toolchains = toolchainsNamed(options.toolchains, config.home)
  const root = rootFor({ config, folders }, rung, options.image ?? undefined)
  const hasNet = network === 'proxy'
  const gate =
    agent === null && !hasNet
      ? null
      : undone.use(
          await openGate(house, ground, { chosen, budgetNanos, hasNet, root, policyWith: held.policyWith, warn: options.warn }),
        )
  if (agent !== null && chosen.provider.kind === 'rehearsal')
    options.say('No provider is set up: the rehearsal answers, and no model is called.')
  const { bridge } = options
  if (bridge !== null) undone.use(await relayTo(bridge, join(windows, 'bridge.sock')))
  const hasWindows = gate !== null || bridge !== null

  const files = {
    program: runtime.agent,
    node: runtime.node,
    forwarder: runtime.forwarder,
    reader: runtime.reader,
    inside: runtime.inside,
  }
  const cell = undone.use(
    await drivers[rung]({ ...files, engine: config.containerEngine }).start(
      {
        name: 'launcher',
        workspace,
        home,
        windows: hasWindows ? windows : null,
        mounts: [
          ...(hasWindows ? agentMounts(files) : []),
          ...(gate === null ? [] : [{ source: trustFolder(base), target: trustInside }]),
          ...toolchains.flatMap((one) => one.mounts),
          ...options.mounts,
        ],
        network: network === 'host' ? 'host' : 'none',
        covers,
        root,
        scratch,
        limits: cellLimits(config.limits),
        extras: noExtras,
        cgroups,
        runAs,
      },
      AbortSignal.timeout(startTimeoutMs),
    ),
  )
  const slowness = slownessOf(cell.limits)
  await gate?.waitLonger(slowness)
  const tracked = await keepTracked(cell, { workspace, home, covers })
  if (tracked.length > 0) options.warn(`git tracks what is hidden, and its history shows it: ${tracked.join(', ')}`)
  if (access === 'snapshot') await beginHistory(cell, cell.place(workspace), cell.place(home))
  requireLimits(cell.limits, config.requireLimits)
  if (rung === 'none')
    options.alarm('There is no wall: what runs here can read and change all that its user can, and reaches any network.')
  else if (network === 'host') options.alarm("This cell shares the host's network: anything it reads can leave.")
  tell(
    options.say,
    { rung, network },
    cell,
    workspace,
    covers.map(({ path }) => path),
  )

  const inside = {
    home: cell.place(home),
    path: toolchains.flatMap((one) => one.path),
    env: {
      ...(Object.assign({}, ...toolchains.map((one) => one.env)) as Record<string, string>),
      ...terminalEnv(process.env),
      ...(hasNet ? netVariables(cell.place(trustFolder(base)), netPlaceholders(config)) : {}),
      ...(bridge === null ? {} : { CLAUDEY_BRIDGE_URL: bridge.url, ANCHORHOLD_BRIDGE_URL: bridge.url }),
    },
  }
  const window = (name: string) => `${cell.place(windows)}/${name}.sock`
  const env =
    agent === null ? cellEnvironment(inside) : claudeEnvironment({ ...inside, slowness, model: { socket: window('model') } })
  const argv: readonly [string, ...string[]] =
    'argv' in options.command
      ? options.command.argv
      : [cell.place(files.program), ...(chosen.model === null ? [] : ['--model', chosen.model]), ...options.command.agentArgs]
  const carried = [
    ...(bridge === null ? [] : [`${bridge.port}=${window('bridge')}`]),
    ...(hasNet ? netRoutes(window('net')) : []),
  ]
  const through: readonly [string, ...string[]] =
    carried.length === 0 ? argv : [cell.place(files.node), cell.place(files.forwarder), ...carried, '--', ...argv]
  // Awaited here: what was made is undone as soon as this returns.
  return await attached(cell, through, { env, cwd: cell.place(workspace) })
}

type House = { readonly config: Config; readonly folders: Folders; readonly runtime: Runtime }

function toolchainsNamed(names: readonly string[], home: string): readonly Toolchain[] {
  if (names.length === 0) return []
  const offers = findToolchains(home)
  requireToolchains(names, offers)
  return offers.filter(({ name }) => names.includes(name))
}

type GateTerms = {
  readonly chosen: Chosen
  readonly budgetNanos: number | null
  readonly hasNet: boolean
  readonly root: string | null
  readonly policyWith: ReturnType<typeof housePolicy>['policyWith']
  readonly warn: (line: string) => void
}

/** The cell's own gate, with all that its programs need to find it and to trust it. */
async function openGate(
  { config, folders, runtime }: House,
  { base, windows, home, runAs, from }: Ground,
  { chosen, budgetNanos, hasNet, root, policyWith, warn }: GateTerms,
): Promise<PrivateGate> {
  const repo = hasNet ? repoOf(config, folders.database, { from }) : null
  const gate = await privateGate({
    folder: join(base, 'gate'),
    rehearsalLog: folders.rehearsalLog,
    runtime,
    root: config.root,
    session: newSessionId(randomBytes),
    windows,
    keys: folders.gate,
    keyEnv: keyEnv(config.env),
    budgetNanos,
    policy: policyWith(forgeSettings(config, repo === null ? {} : { repo })),
    net: hasNet ? netTerms(config, folders.database, repo) : null,
    onBlocked: (action) => warn(blockedWords(action, config.config)),
    ...chosen,
  })
  try {
    makeFolder(trustFolder(base), 0o755)
    await writeTrust({ folder: base, root }, `${config.netCa ?? ''}\n${gate.authority ?? ''}`)
    if (!hasNet) return gate
    await writeSettings({ folder: base, forges: Object.keys(config.forges) })
    await putNetFiles(home, base, async (made) => (runAs === null ? undefined : giveTree(made, runAs)))
    return gate
  } catch (error) {
    await gate[Symbol.asyncDispose]()
    throw error
  }
}

/** What programs look at to find the window, to trust it, and to show it in the place of secrets. */
const netVariables = (trust: string, standIns: Readonly<Record<string, string>>): Record<string, string> => ({
  ...netEnvironment,
  ...trustEnvironment(trust),
  ...settingsEnvironment(trust),
  ...standIns,
})

/** What a program needs to know of the terminal that it is on. */
function terminalEnv(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const names = ['TERM', 'COLORTERM', 'NO_COLOR', 'FORCE_COLOR', 'TZ']
  return Object.fromEntries(names.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])))
}

function tell(
  say: LaunchOptions['say'],
  { rung, network }: { readonly rung: Rung; readonly network: LaunchNetwork },
  cell: Cell,
  workspace: string,
  hidden: readonly string[],
): void {
  say(`rung ${rung}, network ${network}, workspace ${workspace} at ${cell.place(workspace)}`)
  for (const { name, value, enforcement, how } of cell.limits) say(`${name} ${value}: ${enforcement} (${how})`)
  if (hidden.length > 0) say(`hidden: ${hidden.map((path) => path.slice(workspace.length + 1)).join(', ')}`)
}
