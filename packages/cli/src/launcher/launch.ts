// Cells without a daemon: `anchorhold sandbox` and `anchorhold claude`. A program of its own, so that the command line stays small.
import { rootFor } from '@anchorhold/daemon/app/images'
import { forgeSettings } from '@anchorhold/daemon/app/repos'
import { readConfig } from '@anchorhold/daemon/config'
import { folders as foldersOf, gateUser, makeFolder, makeFolders } from '@anchorhold/daemon/folders'
import { delegateCgroups, withdrawCgroups } from '@anchorhold/daemon/processes/cgroups'
import { keyEnv } from '@anchorhold/daemon/processes/gate-process'
import { type Launched, launchedFile, reapLaunched } from '@anchorhold/daemon/processes/reap'
import { stageRuntime } from '@anchorhold/daemon/processes/runtime'
import { giveTree, removeTree } from '@anchorhold/daemon/workspace/trees'
import { prepareWorkspace, revokeGrants } from '@anchorhold/daemon/workspace/workspace'
import { agentMounts, cellEnvironment, claudeEnvironment } from '@anchorhold/keeper/agents/claude/environment'
import { trustEnvironment, trustFolder, trustInside, writeTrust } from '@anchorhold/keeper/trust'
import { netEnvironment, netRoutes } from '@anchorhold/keeper/agents/net-route'
import type { Cell, CellProcess } from '@anchorhold/keeper/cells/cell'
import { noExtras } from '@anchorhold/protocol/sessions'
import { settingsEnvironment, writeSettings } from '@anchorhold/keeper/cell-settings'
import { cellLimits } from '@anchorhold/keeper/cell-spec'
import { drivers } from '@anchorhold/keeper/cells/drivers'
import { findToolchains } from '@anchorhold/keeper/cells/toolchains'
import { putNetFiles } from '@anchorhold/keeper/net-files'
import { coverWorkspace } from '@anchorhold/keeper/repo-filter/covers'
import { hiddenMemory } from '@anchorhold/keeper/repo-filter/memory'
import { hiddenFolderOf } from '@anchorhold/daemon/workspace/hidden-folder'
import { requireLimits } from '@anchorhold/keeper/require-limits'
import { beginHistory } from '@anchorhold/keeper/snapshot'
import { takeLock } from '@anchorhold/link/lock'
import { endOrphans } from '@anchorhold/link/orphans'
import { ownerMark } from '@anchorhold/link/owner'
import { Failure } from '@anchorhold/protocol/failures'
import { newSessionId } from '@anchorhold/protocol/ids'
import { type Rung, sharesHostNetwork, slownessOf } from '@anchorhold/protocol/rungs'
import type { RepoFilter, WorkspaceAccess } from '@anchorhold/protocol/sessions'
import { createHash, randomBytes } from 'node:crypto'
import { existsSync, mkdtempSync, realpathSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { type Bridge, relayTo } from './bridge.ts'
import { blockedWords, housePolicy } from './house-policy.ts'
import { netPlaceholders, netTerms, repoOf } from './net-terms.ts'
import { type PrivateGate, privateGate } from './private-gate.ts'
import { chooseProvider, rehearsal } from './provider.ts'

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
  readonly network: 'none' | 'proxy' | 'host'
  readonly bridge: (Bridge & { readonly url: string }) | null
  /** What to run: a command, or the agent with these arguments of its own. */
  readonly command:
    | { readonly argv: readonly [string, ...string[]] }
    | { readonly agentArgs: readonly string[]; readonly provider: string | null; readonly budgetNanos: number | null }
  /** Tells what a person who asked for it wants to know. */
  readonly say: (line: string) => void
  /** Tells what a person must know. */
  readonly warn: (line: string) => void
}

const startTimeoutMs = 120_000
const withoutLoopback: readonly Rung[] = ['none', 'seatbelt']
/** A cell's own user as root, for as long as this process lives: nobody else has a number of this range. */
const launcherUid = (pid: number) => 1_890_000_000 + (pid % 8_000_000)

/** Runs a command in a cell on this terminal, and gives its exit code. Nothing of the cell is left behind. */
export async function launch(options: LaunchOptions): Promise<number> {
  const config = readConfig(options.stateFlag === undefined ? [] : ['--state', options.stateFlag], process.env)
  const folders = foldersOf(config.state)
  makeFolders(folders, config.root)
  const runtime = stageRuntime(dirname(fileURLToPath(import.meta.url)), folders.runtime)
  const rung = options.rung ?? config.rung
  if (options.network === 'host' && !sharesHostNetwork(rung))
    throw new Failure('cell_unavailable', `A cell of rung "${rung}" cannot share the host's network`, {
      hint: 'Leave --net host out',
    })
  if (options.network === 'proxy' && withoutLoopback.includes(rung))
    throw new Failure('cell_unavailable', `A cell of rung "${rung}" has no net window`, { hint: 'Leave --net proxy out' })
  const { policyWith, repoFilter, budgetAt } = housePolicy(config, {
    rung,
    network: options.network,
    repoFilter: options.repoFilter,
  })
  const isAgent = 'agentArgs' in options.command
  const chosen = isAgent ? chooseProvider(folders.database, agentOf(options).provider, process.env) : rehearsal
  const budgetNanos = isAgent ? budgetAt(chosen.provider, agentOf(options).budgetNanos) : null

  await using undone = new AsyncDisposableStack()
  await endOrphans()
  await reapLaunched(folders, runtime)
  const base = mkdtempSync(`${realpathSync(folders.launched)}/${ownerMark()}-`)
  makeFolder(base, config.root ? 0o711 : 0o700)
  undone.defer(() => removeTree(base))
  const lock = takeLock(join(base, 'lock'))
  undone.defer(async () => lock?.release())
  const uid = launcherUid(process.pid)
  const prepared = await prepareWorkspace({
    asked: resolve(options.workspace),
    access: options.access,
    own: join(base, 'workspace'),
    fresh: config.root ? { uid, gid: uid } : null,
    home: config.home,
    reserved: [config.state, config.config],
    within: null,
  })
  const { runAs } = prepared
  undone.defer(async () => (runAs === null ? undefined : revokeGrants(prepared.grants, runAs)))
  writeFileSync(join(base, launchedFile), JSON.stringify({ runAs, grants: prepared.grants } satisfies Launched), { mode: 0o600 })
  const home = isAgent ? await agentHome(folders.state, prepared.path, runAs) : join(base, 'home')
  const [windows, scratch] = [join(base, 'windows'), join(base, 'cell')]
  for (const each of [scratch, ...(isAgent ? [] : [home])]) makeFolder(each, 0o700, runAs)
  makeFolder(windows, runAs === null ? 0o700 : 0o770, runAs === null ? null : { uid: runAs.uid, gid: gateUser.gid })

  // A copy goes with the cell, and so does what is known of it. This process writes it, as whoever it runs as.
  const hidden = prepared.path.startsWith(`${base}/`) ? base : hiddenFolderOf(folders, prepared.path, null)
  const covers =
    rung === 'none' ? [] : coverWorkspace(prepared.path, repoFilter, join(base, 'covers'), hiddenMemory(hidden, repoFilter))
  const offers = options.toolchains.length === 0 ? [] : findToolchains(config.home)
  const wanted = options.toolchains.map((name) => {
    const found = offers.find((offer) => offer.name === name)
    if (found === undefined)
      throw new Failure('bad_request', `There is no toolchain "${name}"`, { hint: 'anchorhold doctor names them' })
    return found
  })
  const cgroups = runAs === null ? [] : delegateCgroups(`launcher-${process.pid}`, runAs)
  undone.defer(async () => withdrawCgroups(cgroups))
  const files = {
    program: runtime.agent,
    node: runtime.node,
    forwarder: runtime.forwarder,
    reader: runtime.reader,
    inside: runtime.inside,
  }
  const root = rootFor({ config, folders }, rung, options.image ?? undefined)
  const hasGate = isAgent || options.network === 'proxy'
  const hasWindows = hasGate || options.bridge !== null
  const hasNet = options.network === 'proxy'
  let gate: PrivateGate | null = null
  if (hasGate) {
    const repo = hasNet ? repoOf(config, folders.database, prepared) : null
    gate = undone.use(
      await privateGate({
        folder: join(base, 'gate'),
        runtime,
        root: config.root,
        session: newSessionId(randomBytes),
        windows,
        keys: folders.gate,
        keyEnv: keyEnv(config.env),
        budgetNanos,
        policy: policyWith(forgeSettings(config, repo === null ? {} : { repo })),
        net: hasNet ? netTerms(config, folders.database, repo) : null,
        onBlocked: (action) => options.warn(blockedWords(action, config.config)),
        ...chosen,
      }),
    )
    makeFolder(trustFolder(base), 0o755)
    await writeTrust({ folder: base, root, net_ca: `${config.netCa ?? ''}\n${gate.authority ?? ''}` })
    if (hasNet) {
      await writeSettings({ folder: base, forges: Object.keys(config.forges) })
      await putNetFiles(home, base, async (made) => (runAs === null ? undefined : giveTree(made, runAs)))
    }
    if (isAgent && chosen.provider.kind === 'rehearsal')
      options.say('No provider is set up: the rehearsal answers, and no model is called.')
  }
  if (options.bridge !== null) undone.use(await relayTo(options.bridge, join(windows, 'bridge.sock')))
  const cell = await drivers[rung]({ ...files, engine: config.containerEngine }).start(
    {
      name: 'launcher',
      workspace: prepared.path,
      home,
      windows: hasWindows ? windows : null,
      mounts: [
        ...(hasWindows ? agentMounts(files) : []),
        ...(hasGate ? [{ source: trustFolder(base), target: trustInside }] : []),
        ...wanted.flatMap((one) => one.mounts),
        ...options.mounts,
      ],
      network: options.network === 'host' ? 'host' : 'none',
      covers,
      root,
      scratch,
      limits: cellLimits(config.limits),
      extras: noExtras,
      cgroups,
      runAs,
    },
    AbortSignal.timeout(startTimeoutMs),
  )
  undone.use(cell)
  const slowness = slownessOf(cell.limits)
  await gate?.waitLonger(slowness)
  if (options.access === 'snapshot') await beginHistory(cell, cell.place(prepared.path), cell.place(home))
  requireLimits(cell.limits, config.requireLimits)
  tell(
    options,
    rung,
    cell,
    prepared.path,
    covers.map(({ path }) => path),
  )

  const inside = {
    home: cell.place(home),
    path: wanted.flatMap((one) => one.path),
    env: {
      ...(Object.assign({}, ...wanted.map((one) => one.env)) as Record<string, string>),
      ...terminalEnv(process.env),
      ...(hasNet ? netVariables(cell.place(trustFolder(base)), netPlaceholders(config)) : {}),
      ...(options.bridge === null ? {} : { CLAUDEY_BRIDGE_URL: options.bridge.url, ANCHORHOLD_BRIDGE_URL: options.bridge.url }),
    },
  }
  const env = isAgent
    ? claudeEnvironment({ ...inside, slowness, model: { socket: `${cell.place(windows)}/model.sock` } })
    : cellEnvironment(inside)
  const argv: readonly [string, ...string[]] = isAgent
    ? [cell.place(files.program), ...(chosen.model === null ? [] : ['--model', chosen.model]), ...agentOf(options).agentArgs]
    : options.command.argv
  const carried = [
    ...(options.bridge === null ? [] : [`${options.bridge.port}=${cell.place(windows)}/bridge.sock`]),
    ...(hasNet ? netRoutes(`${cell.place(windows)}/net.sock`) : []),
  ]
  const through: readonly [string, ...string[]] =
    carried.length === 0 ? argv : [cell.place(files.node), cell.place(files.forwarder), ...carried, '--', ...argv]
  // Awaited here: what was made is undone as soon as this returns.
  const where = { env, cwd: cell.place(prepared.path) }
  const isPerson = process.stdin.isTTY && process.stdout.isTTY
  return await untilSignal(
    isPerson ? cell.onTerminal(through, where) : piped(cell.spawn(['/usr/bin/env', ...through], where)),
    cell,
  )
}

function agentOf({ command }: LaunchOptions) {
  if (!('agentArgs' in command)) throw new Failure('internal', 'A command is not an agent')
  return command
}

/** A conversation goes on where it was left: an agent's home is kept for each folder that it works in. */
async function agentHome(
  state: string,
  workspace: string,
  runAs: { readonly uid: number; readonly gid: number } | null,
): Promise<string> {
  const homes = join(state, 'homes')
  makeFolder(homes, runAs === null ? 0o700 : 0o711)
  const home = join(homes, createHash('sha256').update(workspace).digest('hex').slice(0, 16))
  const isNew = !existsSync(home)
  makeFolder(home, 0o700, runAs)
  if (isNew) {
    makeFolder(join(home, '.claude'), 0o700, runAs)
    // Who starts the agent here has seen what Anchorhold says of it; its own first questions would only stand in the way.
    const settled = { hasCompletedOnboarding: true, theme: 'dark', projects: { '/workspace': { hasTrustDialogAccepted: true } } }
    writeFileSync(join(home, '.claude/.claude.json'), JSON.stringify(settled), { mode: 0o600 })
    writeFileSync(join(home, '.gitconfig'), '[safe]\n\tdirectory = *\n[init]\n\tdefaultBranch = main\n', { mode: 0o644 })
  }
  if (runAs !== null) await giveTree(home, runAs)
  return home
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

function tell(options: LaunchOptions, rung: Rung, cell: Cell, workspace: string, hidden: readonly string[]): void {
  options.say(`rung ${rung}, network ${options.network}, workspace ${workspace} at ${cell.place(workspace)}`)
  for (const { name, value, enforcement, how } of cell.limits) options.say(`${name} ${value}: ${enforcement} (${how})`)
  if (hidden.length > 0) options.say(`hidden: ${hidden.map((path) => path.slice(workspace.length + 1)).join(', ')}`)
}

/** By env, which tells 127 for a program that is not there, as a shell does. Joins the standard streams of this process to those of the command, where there is no terminal. */
async function piped(command: CellProcess): Promise<number> {
  process.stdin.pipe(command.stdin)
  const [, , code] = await Promise.all([
    pipeline(command.stdout, process.stdout, { end: false }),
    pipeline(command.stderr, process.stderr, { end: false }),
    command.exited,
  ])
  // Whoever is at its other end may never close it.
  process.stdin.destroy()
  return code
}

/** Ctrl-C is the command's to act on; whoever ends this process ends the cell. */
async function untilSignal(command: Promise<number>, cell: Cell): Promise<number> {
  const told = Promise.withResolvers<number>()
  const ignore = () => {}
  const end = (signal: NodeJS.Signals) => told.resolve(128 + constants.signals[signal])
  for (const signal of ['SIGINT', 'SIGQUIT'] as const) process.on(signal, ignore)
  for (const signal of ['SIGTERM', 'SIGHUP'] as const) process.on(signal, end)
  const ended = cell.ended.then((why) => {
    throw new Failure('cell_unavailable', why)
  })
  try {
    return await Promise.race([command, told.promise, ended])
  } finally {
    for (const signal of ['SIGINT', 'SIGQUIT'] as const) process.off(signal, ignore)
    for (const signal of ['SIGTERM', 'SIGHUP'] as const) process.off(signal, end)
  }
}
