import type { Extras } from '@anchorhold/protocol/sessions'
import { join } from 'node:path'
import type { Lack } from '../cell.ts'
import { installCommand, type ReadText } from '../install.ts'
import { type Engine, lacksInit, path, type Plan, scratchPlaces, userInside } from './engine.ts'
import { seccompProfile } from './seccomp-profile.ts'

/** Rootless Podman, with a store of the cell's own. The arguments are the whole posture.
 *  Does not stop: attacks on the host kernel through the calls that the filter leaves open. */
export function podman({ runtime }: { readonly runtime: 'runc' | 'crun' }): Engine {
  const files = (plan: Plan) => ({
    'containers.conf': [
      ...['[engine]', `runtime = "${runtime}"`, 'cgroup_manager = "cgroupfs"', 'events_logger = "none"'],
      // Not as arguments: those would be given to the cell's user at once, and not only to whoever becomes root inside.
      ...['[containers]', `default_capabilities = ${JSON.stringify(capabilitiesOfRoot(plan.extras))}`, ''],
    ].join('\n'),
    // With one user there is nobody else to give a file to.
    'storage.conf':
      `[storage]\ndriver = "overlay"\ngraphroot = "${join(plan.folder, 'store')}"\nrunroot = "${join(plan.folder, 'state')}"\n` +
      '[storage.options.overlay]\nignore_chown_errors = "true"\n',
    'seccomp.json': JSON.stringify(seccompProfile(plan.arch, plan.extras)),
  })
  const podman = ({ folder }: Plan) => ['podman', '--root', join(folder, 'store'), '--runroot', join(folder, 'state')] as const
  return {
    rung: 'container',
    programs: ['podman', runtime],
    lacks: lacksPodman,
    // Its own threads and those of the program inside; it starts with all of them at once.
    tasks: () => ({ tasks: 96, whose: "the engine's own" }),
    hostRlimits: ['nofile', 'fsize', 'core', 'nproc'],
    outsideRlimits: [],
    namespaces: [],
    wantsPlace: true,
    files,
    stays: false,
    said: { file: saidFile, read: (text) => text.replaceAll(/^\S+ std(?:out|err) [FP] /gm, '') },
    run: (plan) => [...podman(plan), 'run', '--detach', '--rootfs', ...podmanOptions(plan, runtime), plan.root, ...plan.command],
    onTerminal: (plan, command) => ({
      argv: [...podman(plan), 'exec', '--interactive', '--tty', name, ...command],
      content: '',
      interrupt: 'key',
    }),
    env: ({ folder, owner }) => ({
      PATH: path,
      HOME: join(folder, 'home'),
      XDG_RUNTIME_DIR: join(folder, 'state'),
      CONTAINERS_CONF: join(folder, 'containers.conf'),
      CONTAINERS_STORAGE_CONF: join(folder, 'storage.conf'),
      // The driver has made the namespaces. Podman would make them itself otherwise, and leave a process to hold them.
      _CONTAINERS_USERNS_CONFIGURED: 'done',
      _CONTAINERS_ROOTLESS_UID: String(owner.uid),
      _CONTAINERS_ROOTLESS_GID: String(owner.gid),
    }),
    posture: ({ users, extras }) => {
      const uid = userInside(users)
      return [
        new RegExp(`^Uid:\\t${uid}\\t${uid}\\t${uid}\\t${uid}$`, 'm'),
        /^CapPrm:\t0{16}$/m,
        /^CapEff:\t0{16}$/m,
        ...(extras.sudo || extras.nested ? [] : [/^CapBnd:\t0{16}$/m, /^NoNewPrivs:\t1$/m]),
        /^Seccomp:\t2$/m,
      ]
    },
  }
}

const name = 'cell'
/** conmon begins it anew when it is full. It is read of a container that has ended before anything of the agent's was in it. */
const saidFile = 'said.log'

/** Options of `podman run`, and of `docker run` as far as that has them. */
export function podmanOptions(plan: Plan, runtime: 'runc' | 'crun'): string[] {
  const { users, extras, rlimits, folder } = plan
  const uid = userInside(users)
  return [
    ...['--name', name, '--hostname', 'cell', '--pull', 'never', '--network', 'none', '--no-hosts', '--http-proxy=false'],
    ...['--log-driver', 'k8s-file', '--log-opt', `path=${join(folder, saidFile)}`, '--log-opt', 'max-size=16kb'],
    ...['--unsetenv-all', '--user', `${uid}:${uid}`, '--workdir', '/'],
    // Only crun can leave the control groups alone; runc without a right to any does so by itself.
    ...(runtime === 'crun' ? ['--cgroups', 'disabled'] : []),
    // The namespaces that the driver has made know the session's user as 0, and its range from 1 on.
    ...(users === 'range'
      ? ['--uidmap', '--gidmap'].flatMap((map) => ['0:1:1000', '1000:0:1', '1001:1001:64535'].flatMap((range) => [map, range]))
      : []),

    ...['--read-only', '--read-only-tmpfs=false'],
    ...(extras.sudo || extras.nested ? [] : ['--cap-drop', 'all', '--security-opt', 'no-new-privileges']),
    ...['--security-opt', `seccomp=${join(folder, 'seccomp.json')}`],
    // With labels of SELinux a container may touch nothing that is not labelled for it, and the folders of a person are not relabelled.
    ...['--security-opt', 'label=disable'],
    ...(extras.nested
      ? ['--security-opt', 'unmask=/proc/*', '--device', '/dev/fuse']
      : ['--security-opt', `mask=${hidden.join(':')}`]),
    ...(extras.gpu ? ['--device', 'nvidia.com/gpu=all'] : []),
    ...rlimitOptions({ nofile: rlimits.nofile, fsize: rlimits.fsize, core: rlimits.core, nproc: rlimits.nproc }),

    // With a /dev that is ours, Podman leaves the terminals out.
    ...['--tmpfs', '/dev:ro,nosuid,noexec,size=64k,mode=755'],
    ...['--mount', `type=bind,source=${join(folder, 'terminals')},destination=/dev/pts,nosuid,noexec`],
    ...scratchPlaces.flatMap((place) => ['--tmpfs', `${place}:rw,nosuid,nodev,exec,size=${plan.tmpBytes},mode=1777`]),
    ...plan.binds.flatMap(({ source, target, writable, noexec }) => [
      '--mount',
      [
        ...['type=bind', `source=${source}`, `destination=${target}`, 'nosuid', 'nodev'],
        ...(noexec ? ['noexec'] : []),
        ...(writable ? [] : ['ro=true']),
      ]
        .map(csvField)
        .join(','),
    ]),
  ]
}

export const rlimitOptions = (limits: Readonly<Record<string, number | null>>) =>
  Object.entries(limits).flatMap(([limit, value]) => (value === null ? [] : ['--ulimit', `${limit}=${value}:${value}`]))

/** Of /proc, what engines leave open beyond the usual; of /sys, everything, as bubblewrap cells have none. */
export const hidden = ['/sys', '/proc/key-users', '/proc/kmsg', '/proc/pressure', '/proc/sysrq-trigger']

/** What root inside may have of itself for sudo to work, or for an engine of its own. */
const capabilitiesOfRoot = ({ sudo, nested }: Pick<Extras, 'sudo' | 'nested'>): string[] =>
  [
    ...(sudo || nested ? ['setuid', 'setgid', 'chown', 'dac_override', 'fowner', 'fsetid', 'kill', 'sys_chroot', 'setfcap'] : []),
    ...(sudo ? ['net_bind_service'] : []),
    ...(nested ? ['sys_admin', 'mknod', 'net_admin'] : []),
  ].map((name) => `CAP_${name.toUpperCase()}`)

/** Podman reads --mount as a line of CSV. */
export const csvField = (text: string) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)

function lacksPodman(read: ReadText, has: (program: string) => boolean): Lack[] {
  const needed = [
    { program: 'podman', package: 'podman', what: 'Podman is not installed' },
    { program: 'conmon', package: 'conmon', what: 'conmon is not installed, which watches containers for Podman' },
  ]
  const lacks = [
    ...needed
      .filter(({ program }) => !has(program))
      .map(({ what, package: name }) => ({ what, remedy: installCommand(read, name) })),
    ...lacksInit(read, has),
  ]
  if (has('runc') || has('crun')) return lacks
  return [...lacks, { what: 'neither runc nor crun is installed', remedy: installCommand(read, 'runc') }]
}

/** crun refuses a machine whose control groups are of both versions; runc takes every one. */
export function chooseRuntime(read: ReadText, has: (program: string) => boolean): 'runc' | 'crun' {
  const isUnified = read('/sys/fs/cgroup/cgroup.controllers') !== null
  const isMixed = !isUnified && (read('/sys/fs/cgroup/unified/cgroup.controllers') ?? '') !== ''
  return has('crun') && !isMixed ? 'crun' : 'runc'
}
