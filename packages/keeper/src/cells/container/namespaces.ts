import { spawn } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { allowedCopy } from '../apparmor.ts'
import type { CellSpec } from '../cell.ts'
import { exitOf } from '../cell-process.ts'
import { freePlace } from '../free-place.ts'
import { limitShares } from '../limits/kernel-shares.ts'
import type { Limits } from '../limits/limits.ts'
import { elevating } from './elevated.ts'
import type { Engine, Plan, Users } from './engine.ts'
import { giveTo } from './program.ts'
import { find } from './refusals.ts'
import type { Bind, Root } from './root.ts'

/** An engine that runs in namespaces of one cell's own. */
export type Enclosed = {
  readonly engine: Engine
  readonly spec: CellSpec
  readonly limits: Limits
  readonly plan: Plan
}

const saidCharsMax = 8_000

/** In a shell's words, each becoming the next: dies with this process; waits until it is under the cell's limits; is root in
 *  namespaces of its own, whose first process takes all others along when it ends; waits until all that the engine is to find is in
 *  its place. */
export function spawnEngine(
  { engine, spec, limits, plan }: Enclosed,
  { root, init }: { readonly root: Root; readonly init: string },
) {
  const layer = plan.elevated === null ? null : join(plan.folder, 'elevated')
  const lower = [...(layer === null ? [] : [layer]), root.folder, root.over]
  const laid = root.over === null ? ['', ''] : [`lowerdir=${lower.join(':')}`, plan.root]
  const elevate =
    plan.elevated === null || layer === null || root.over === null
      ? ':'
      : elevating(plan.elevated, { at: layer, image: root.over, written: join(spec.scratch, 'elevated') })
  const placed = engine.wantsPlace ? placing : []
  const script = [
    'set -e',
    limitShares,
    furnished,
    ...placed,
    ...mounting(elevate),
    engine.stays ? scripts.stays : scripts.leaves,
  ]
  const inNamespaces = ['sh', '-c', script.join('; '), init]
  const mounted = [join(spec.scratch, 'engine'), plan.folder, ...laid]
  const argv = limits.wrap(
    [
      ...(['setpriv', '--pdeathsig', 'KILL', '--', ...holding('')] as const),
      ...[allowedCopy(find('unshare')!), '--user', ...maps[plan.users], '--mount', '--pid', ...engine.namespaces],
      ...['--fork', '--kill-child=KILL', '--mount-proc', '--'],
      ...[...inNamespaces, ...mounted, ...engine.run(plan)],
    ],
    engine.hostRlimits,
  )
  const [file, ...args] = argv
  const child = spawn(file, args, {
    env: { ...engine.env(plan) },
    cwd: '/',
    // Its errors, and what holds it.
    stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
    detached: true,
    ...spec.runAs,
  })
  let said = ''
  const stderr = child.stderr as Readable
  stderr.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-saidCharsMax)))
  const hold = child.stdio[3] as Writable
  hold.on('error', () => {}) // it has ended, which its exit tells
  return { child, said: () => said, admitted: () => void hold.write('go\n'), furnished: () => void hold.end('go\n') }
}

/** First the engine's folder and where it sees it, with terminals of the cell's own in it; */
const placing = ['mount --bind "$1" "$2"', 'mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts "$2/terminals"']
/** then what the root is laid over, if anything, and where; */
const mounting = (elevate: string) => [elevate, '[ -z "$3" ] || mount -t overlay overlay -o "$3" "$4"', 'shift 4']
/** then the engine. `$0` is what waits as first process when that has left. */
const scripts = { stays: 'exec "$@"', leaves: '"$@"; exec "$0" -P' }

/** Where an engine finds its folder. Podman takes no path of more than 50 characters for its sockets, and a session's folder may be
 *  deep: in the cell's own mount namespace, it is at a short one, a place for mounts that the kernel gives, and that nothing of the
 *  cell's lies in. */
export const enginePlace = ({ wantsPlace }: Engine, folder: string, binds: readonly Bind[]): string =>
  wantsPlace ? (freePlace(binds.map(({ source }) => source)) ?? '/mnt') : folder
const maps = { single: ['--map-root-user'], range: ['--map-root-user', '--map-auto'] } as const satisfies Record<
  Users,
  readonly string[]
>

const furnished = 'read -r _ <&3; exec 3<&-'

/** Becomes the command once a line has come on the third descriptor. */
const holding = (close: '3<&-' | '') => ['sh', '-c', `read -r _ <&3 || exit 1; exec "$@" ${close}`, 'sh'] as const
const deaf = ['sh', '-c', 'trap "" INT QUIT; exec "$@"', 'sh'] as const

/** Runs one more command of the engine's in the namespaces that a process is in, on this terminal. What it is to become there is called
 *  `name`. */
export async function spawnOnTerminal(
  { engine, spec, limits, plan }: Enclosed,
  pid: number,
  { name, argv: becoming, term }: { readonly name: string; readonly argv: readonly string[]; readonly term: string },
): Promise<number> {
  const { argv, content, interrupt } = engine.onTerminal(plan, becoming, name)
  const described = join(spec.scratch, 'engine', name)
  writeFileSync(described, content, { mode: 0o600 })
  giveTo(spec, described)
  const entering = ['--target', String(pid), '--user', '--mount', '--pid', ...engine.namespaces, '--preserve-credentials']
  // The signal is for the command: what only waits for its end must not die of it. It waits until it is under the cell's limits.
  const [program, ...args] = [
    ...holding('3<&-'),
    ...(interrupt === 'signal' ? deaf : []),
    'nsenter',
    ...entering,
    '--',
    ...argv,
  ] as const
  const child = spawn(program, args, {
    env: { ...engine.env(plan), TERM: term },
    cwd: '/',
    stdio: ['inherit', 'inherit', 'inherit', 'pipe'],
    ...spec.runAs,
  })
  try {
    if (child.pid !== undefined) limits.admit(child.pid)
    const hold = child.stdio[3] as Writable
    hold.on('error', () => {}) // likewise
    hold.end('go\n')
    return await exitOf(child)
  } finally {
    // Already gone when the cell has ended.
    rmSync(described, { force: true })
  }
}
