import { spawnSync } from 'node:child_process'
import { lstatSync } from 'node:fs'
import { join } from 'node:path'
import { installCommand } from '../install.ts'
import { type Engine, lacksInit, path, type Plan, scratchPlaces, userInside } from './engine.ts'
import { gvisorFilter } from './gvisor-filter.ts'
import { find } from './refusals.ts'

/** gVisor's runsc by itself: between the cell and the kernel stands another kernel, a program of its own in Go. No engine around
 *  it: without a range of users of one's own, runsc can be started by nobody else.
 *  Does not stop: an attack on the host kernel by way of a flaw in that program. */
export function gvisor(): Engine {
  const runsc = ({ folder }: Plan) =>
    // No platform is named: each version's own choice is the one that works there, ptrace for old ones and systrap since.
    [
      ...(['runsc', `--root=${join(folder, 'state')}`, '--rootless', '--network=none'] as const),
      // The windows are sockets of the host's, and the driver sees to the control groups.
      ...['--host-uds=open', '--ignore-cgroups', '--oci-seccomp'],
    ] as const
  return {
    rung: 'gvisor',
    programs: ['runsc'],
    lacks: (read, has) => [
      ...(has('runsc') ? [] : [{ what: 'runsc is not installed, which is gVisor', remedy: installCommand(read, 'runsc') }]),
      ...lacksInit(read, has),
    ],
    // Each process inside is several tasks outside, and the kernel between them has its own.
    tasks: ({ processesMax }) => ({
      tasks: 3 * processesMax + 256,
      whose: "gVisor's own",
      oneForAll: () => isSystrap(version()),
    }),
    // What the cell opens and writes, runsc opens and writes for it, and its memory is a file as well.
    hostRlimits: ['core', 'nproc'],
    outsideRlimits: ['core', 'nproc'],
    // It takes orders from anyone in its network namespace, by an abstract socket: so it gets one of its own.
    namespaces: ['--net'],
    wantsPlace: false,
    files: (plan) => ({ 'config.json': JSON.stringify(gvisorConfig(plan)) }),
    stays: true,
    run: (plan) => [...runsc(plan), 'run', '--bundle', plan.folder, name],
    // Only a process that is described whole may have a terminal, without somebody to hold its other end.
    onTerminal: (plan, command, file) => ({
      argv: [...runsc(plan), 'exec', '--process', join(plan.folder, file), name],
      content: JSON.stringify({ ...processOf(plan, command), terminal: true }),
      interrupt: 'signal',
    }),
    env: ({ folder }) => ({ PATH: path, HOME: folder, XDG_RUNTIME_DIR: folder }),
    posture: () => [
      /^CapPrm:\t0{16}$/m,
      /^CapEff:\t0{16}$/m,
      /^CapBnd:\t0{16}$/m,
      /^Seccomp:\t2$/m,
      // What runsc gives itself out for: of 4.4.0, newer ones of 4.19.0-gvisor. No Linux was built on that day.
      /^Linux version \S+ #1 SMP Sun Jan 10 15:06:54 PST 2016$/m,
    ],
    // runsc carries the filter out for the first process and what descends from it. One that is added on a terminal does not.
    notes: ['a command on a terminal has gVisor alone around it: runsc gives no filter of system calls to what it adds'],
  }
}

const name = 'cell'

const version = () => spawnSync(find('runsc') ?? 'runsc', ['--version'], { encoding: 'utf8' }).stdout ?? ''

/** Whether a release uses the platform of 2023, which does not notice when one of its processes outside is killed. */
export function isSystrap(said: string): boolean {
  const [, day] = /\b(20\d{6})\.\d/.exec(said) ?? []
  return day === undefined || Number(day) >= 20_230_501
}

/** https://github.com/opencontainers/runtime-spec/blob/main/config.md */
export function gvisorConfig(plan: Plan) {
  return {
    ociVersion: '1.0.2',
    root: { path: plan.root, readonly: true },
    hostname: 'cell',
    process: processOf(plan, plan.command),
    mounts: [
      { destination: '/proc', type: 'proc', source: 'proc', options: ['nosuid', 'noexec', 'nodev'] },
      // Not read-only: no device could be written to then either. It is gVisor's own memory, so nothing of the host's.
      { destination: '/dev', type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'noexec', 'mode=755'] },
      { destination: '/sys', type: 'tmpfs', source: 'tmpfs', options: ['ro', 'size=4096'] },
      ...scratchPlaces.map((destination) => ({
        destination,
        type: 'tmpfs',
        source: 'tmpfs',
        options: ['nosuid', 'nodev', `size=${plan.tmpBytes}`, 'mode=1777'],
      })),
      ...plan.binds.map(({ source, target, writable, noexec }) => ({
        destination: target,
        type: 'bind',
        source,
        options: ['rbind', 'nosuid', 'nodev', ...(noexec ? ['noexec'] : []), writable ? 'rw' : 'ro'],
      })),
      ...listers(plan).map(({ source, target }) => ({
        destination: target,
        type: 'bind',
        source,
        options: ['bind', 'nosuid', 'nodev', 'ro'],
      })),
    ],
    linux: {
      namespaces: ['pid', 'ipc', 'uts', 'mount', 'network'].map((type) => ({ type })),
      seccomp: gvisorFilter(plan.arch),
    },
  }
}

/** The runsc of Debian 12 refuses a flag that the `ls` and `stat` of GNU always set. Busybox has both without it, and is whichever of
 *  its programs it is called as. */
function listers({ root, binds }: Plan): readonly { readonly source: string; readonly target: string }[] {
  const usr = binds.find(({ target }) => target === '/usr')?.source ?? join(root, 'usr')
  const busybox = join(usr, 'bin/busybox')
  // One that is a link stands for many programs, and all of them would be covered.
  const isFile = (name: string) => lstatSync(join(usr, 'bin', name), { throwIfNoEntry: false })?.isFile() === true
  if (!isFile('busybox')) return []
  return ['ls', 'stat'].filter(isFile).map((name) => ({ source: busybox, target: `/usr/bin/${name}` }))
}

function processOf(plan: Plan, args: readonly string[]) {
  const uid = userInside('single')
  const none: string[] = []
  const { nofile, fsize, core } = plan.rlimits
  return {
    user: { uid, gid: uid },
    args,
    env: [],
    cwd: '/',
    noNewPrivileges: true,
    capabilities: { bounding: none, effective: none, inheritable: none, permitted: none, ambient: none },
    rlimits: Object.entries({ RLIMIT_NOFILE: nofile, RLIMIT_FSIZE: fsize, RLIMIT_CORE: core }).map(([type, value]) => ({
      type,
      hard: value,
      soft: value,
    })),
  }
}
