import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { accessSync, constants, existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import type { ContainerEngine } from '@anchorhold/protocol/rungs'
import { z } from 'zod'
import type { CellFiles, Lack } from '../cell.ts'
import type { Installed, ProgramName } from '../holes.ts'
import { installCommand, isExecutable, type ReadText } from '../install.ts'
import { changelogOf } from '../installed.ts'
import type { Rlimits } from '../limits/rlimits.ts'
import { csvField, hidden, rlimitOptions } from './podman.ts'
import type { Bind } from './root.ts'

export type ServedName = Exclude<ContainerEngine, 'podman'>

/** An engine whose containers are made by a daemon of root's, asked by its command line program over its socket. Whoever may use that
 *  socket is root, so it is used by nobody who was not before: neither the cell nor a session's user ever gets it. */
export type ServedEngine = { readonly name: ServedName; readonly socket: string }

export const servedEngines: Readonly<Record<ServedName, ServedEngine>> = {
  docker: { name: 'docker', socket: '/var/run/docker.sock' },
  'podman-rootful': { name: 'podman-rootful', socket: '/run/podman/podman.sock' },
}

const faces = {
  docker: { program: 'docker', package: 'docker.io', words: 'Docker', unit: 'docker', group: 'docker' },
  'podman-rootful': { program: 'podman', package: 'podman', words: 'Podman of root', unit: 'podman.socket', group: null },
} as const satisfies Record<ServedName, unknown>

export const wordsFor = ({ name }: ServedEngine) => faces[name].words

/** Not by PATH: another client may lie earlier in it. */
const folders = ['/usr/bin', '/usr/local/bin', '/bin', '/opt/homebrew/bin']
const programOf = (name: ServedName) => folders.map((folder) => join(folder, faces[name].program)).find(isExecutable) ?? null

/** The command that asks the engine. */
export function asking({ name, socket }: ServedEngine): [string, ...string[]] {
  const program = programOf(name) ?? faces[name].program
  return name === 'docker' ? [program, '--host', `unix://${socket}`] : [program, '--remote', '--url', `unix://${socket}`]
}

/** Asks it for something and gives what it answers. */
export async function ask(engine: ServedEngine, args: readonly string[], signal?: AbortSignal): Promise<string> {
  const [file, ...first] = asking(engine)
  const { stdout } = await promisify(execFile)(file, [...first, ...args], {
    env: clientEnv,
    cwd: '/',
    maxBuffer: answerBytesMax,
    timeout: askMs,
    ...(signal === undefined ? {} : { signal }),
  })
  return stdout.trim()
}

/** Nothing of the user's own settings, which may name another engine. */
export const clientEnv = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/nonexistent' }
const answerBytesMax = 2 ** 20
const askMs = 60_000

/** What keeps this process from using it. */
export function lacksServed(engine: ServedEngine, read: ReadText): Lack[] {
  const { words, package: name, unit, group } = faces[engine.name]
  if (programOf(engine.name) === null) return [{ what: `${words} is not installed`, remedy: installCommand(read, name) }]
  if (!existsSync(engine.socket))
    return [{ what: `${words} does not run: there is no "${engine.socket}"`, remedy: `sudo systemctl start ${unit}` }]
  try {
    accessSync(engine.socket, constants.R_OK | constants.W_OK)
    return []
  } catch {
    const joining =
      group === null ? '' : `, or sudo usermod --append --groups ${group} $USER, which makes this user as good as root`
    return [
      {
        what: `this user may not use "${engine.socket}"`,
        remedy: `Use the engine that needs no root (container_engine: podman)${joining}`,
      },
    ]
  }
}

/** Everything that a container is made with. */
export type ServedPlan = {
  readonly name: string
  /** Whose it is: the driver's folder, by which it is found again. */
  readonly scratch: string
  readonly image: string
  readonly user: { readonly uid: number; readonly gid: number }
  readonly binds: readonly Bind[]
  readonly seccomp: string
  readonly rlimits: Rlimits
  readonly memoryBytes: number
  readonly tasksMax: number
  readonly cpus: number
  readonly tmpBytes: number
  readonly command: readonly [string, ...string[]]
}

export const ownLabel = 'org.anchorhold.cell'

/** Whose an image is: installations that share an engine leave each other's alone. One is known by the folder that holds the programs
 *  of its releases. */
export const imageLabel = ({ inside }: CellFiles): string =>
  `org.anchorhold.image=${createHash('sha256')
    .update(dirname(dirname(inside)))
    .digest('hex')
    .slice(0, 16)}`

/** The arguments of `run`: the whole posture.
 *  Does not stop: attacks on the host kernel through the calls that the filter leaves open; and who escapes is root, or near it. */
export function servedRun(engine: ServedName, plan: ServedPlan): string[] {
  const podman = engine === 'podman-rootful'
  const scratch = ['/tmp', '/var/tmp', ...(podman ? ['/dev/shm'] : [])]
  return [
    ...['run', '--detach', '--rm', '--name', plan.name, '--label', `${ownLabel}=${plan.scratch}`, '--hostname', 'cell'],
    ...['--pull', 'never', '--network', 'none', '--log-driver', 'none', '--workdir', '/', '--restart', 'no', '--ipc', 'private'],
    ...(podman ? ['--no-hosts', '--http-proxy=false', '--unsetenv-all', '--read-only-tmpfs=false'] : []),
    ...['--user', `${plan.user.uid}:${plan.user.gid}`, '--read-only', '--cap-drop', 'ALL'],
    ...['--security-opt', podman ? 'no-new-privileges' : 'no-new-privileges:true'],
    ...['--security-opt', `seccomp=${plan.seccomp}`, '--security-opt', 'label=disable'],
    // Docker cannot be told to hide more than it does.
    ...(podman ? ['--security-opt', `mask=${hidden.join(':')}`] : []),
    ...['--memory', String(plan.memoryBytes), '--memory-swap', String(plan.memoryBytes)],
    ...['--pids-limit', String(plan.tasksMax), '--cpus', String(plan.cpus)],
    ...rlimitOptions({ ...plan.rlimits }),
    ...(podman ? [] : ['--shm-size', String(plan.tmpBytes)]),
    ...scratch.flatMap((place) => ['--tmpfs', `${place}:rw,nosuid,nodev,exec,size=${plan.tmpBytes},mode=1777`]),
    ...plan.binds.flatMap(({ source, target, writable, noexec }) => [
      '--mount',
      [
        ...['type=bind', `source=${source}`, `destination=${target}`],
        // Docker has no such option.
        ...(noexec && podman ? ['noexec'] : []),
        ...(writable ? [] : [podman ? 'ro=true' : 'readonly']),
      ]
        .map(csvField)
        .join(','),
    ]),
    plan.image,
    ...plan.command,
  ]
}

/** Ends and removes what was made for a cell whose driver kept its things in this folder, and nothing else. */
export async function removeContainers(engine: ServedEngine, scratch: string): Promise<void> {
  const found = await ask(engine, ['ps', '--all', '--quiet', '--no-trunc', '--filter', `label=${ownLabel}=${scratch}`])
  const ids = found.split('\n').filter((id) => /^[0-9a-f]{64}$/.test(id))
  // One that ends by itself at the same time is gone as well.
  for (const id of ids) await ask(engine, removing(engine, id)).catch(() => {})
}

/** At once: Podman would give it ten seconds to end by itself. */
export const removing = ({ name }: ServedEngine, container: string): string[] => [
  ...['rm', '--force', ...(name === 'docker' ? [] : ['--time', '0']), container],
]

const Components = z.array(z.object({ Name: z.string(), Version: z.string() }))

/** The programs behind an engine, by what it says of them. One that does not answer makes no cells. */
export async function programsOf(engine: ServedEngine): Promise<readonly (Installed | null)[]> {
  const said = async (...args: string[]) => ask(engine, args).catch(() => null)
  const path = programOf(engine.name) ?? ''
  const program = (name: ProgramName, text: string | null): Installed | null => {
    if (text === null) return null
    // An engine that comes from elsewhere than the distribution brings its own, which no package's changelog is about.
    const changelog = engine.name === 'podman-rootful' || /[+~]/.test(text) ? changelogOf(name) : null
    return { name, path, said: text, isSetuid: false, changelog, runs: 'as root' }
  }
  if (engine.name === 'docker') {
    const parts = await said('version', '--format', '{{json .Server.Components}}')
    return [program('runc', parts === null ? null : runcOf(parts))]
  }
  const [podman, runtime] = await Promise.all([
    said('version', '--format', '{{.Server.Version}}'),
    said('info', '--format', '{{.Host.OCIRuntime.Name}} {{.Host.OCIRuntime.Version}}'),
  ])
  const name = runtime?.startsWith('runc') === true ? 'runc' : runtime?.startsWith('crun') === true ? 'crun' : null
  return [program('podman', podman), name === null ? null : program(name, runtime)]
}

/** Empty, which is no version, where the engine does not name it. */
function runcOf(components: string): string {
  try {
    return Components.parse(JSON.parse(components)).find(({ Name }) => Name === 'runc')?.Version ?? ''
  } catch {
    return ''
  }
}
