import type { CellSpec, SpawnOptions } from '../cell.ts'
import type { HostRoot } from '../host-root.ts'
import { inside } from '../layout.ts'
import { limitShares } from '../limits/kernel-shares.ts'

/** What the standard streams of a process are: pipes to this process, or the terminal that this one is on. */
export type Streams = 'pipes' | 'terminal'

/** Descriptors that bwrap is given. It closes each after use, so none of them reaches the command. */
export type BwrapFds = {
  readonly seccomp: number
  /** The folders themselves: by then their names may lead elsewhere. bwrap sees to it that what it has mounted is these. Names where
   *  they lie under covers, in a namespace where only they can be written to. */
  readonly workspace: number | string
  readonly home: number | string
  readonly caches: string | undefined
  /** What is copied into the cell's root, by its path there. */
  readonly files: Readonly<Record<string, number>>
  /** bwrap tells here that it has made the cell's first process. */
  readonly status: number
}

/** The whole security posture of this driver. Order matters: a later mount hides an earlier one.
 *  Does not stop: attacks on the host kernel through the calls that the filter leaves open (a job for gVisor or a VM),
 *  and reading the names of mounted host folders in /proc/self/mountinfo. */
export function bwrapArgv(spec: CellSpec, { env, cwd }: SpawnOptions, host: HostRoot, fds: BwrapFds, streams: Streams): string[] {
  const { tmpBytes } = spec.limits
  const scratch = (path: string, mode: string) => ['--perms', mode, '--size', String(tmpBytes), '--tmpfs', path]
  return [
    // Each by name: --unshare-all would only try for two of them.
    ...['--unshare-user', '--unshare-pid', '--unshare-ipc', '--unshare-uts', '--unshare-cgroup'],
    ...(spec.network === 'host' ? [] : ['--unshare-net']),
    ...['--disable-userns', '--die-with-parent', '--cap-drop', 'ALL'],
    // On a terminal that a person lends it, only the filter keeps it from typing for them.
    ...(streams === 'terminal' ? [] : ['--new-session']),
    ...['--uid', '1000', '--gid', '1000', '--hostname', 'cell'],
    ...['--seccomp', String(fds.seccomp), '--json-status-fd', String(fds.status)],

    ...host.trees.flatMap((path) => ['--ro-bind', path, path]),
    ...host.links.flatMap(({ path, target }) => ['--symlink', target, path]),
    ...Object.entries(fds.files).flatMap(([path, fd]) => ['--perms', '0444', '--file', String(fd), path]),

    ...['--proc', '/proc'],
    // For root's sake: a real drop of the uid guards these as well, and one guard is not enough.
    ...host.procReadOnly.flatMap((path) => ['--ro-bind', path, path]),
    // A device node on a mount without devices: whoever opens it is refused.
    ...host.procHiddenFiles.flatMap((path) => ['--ro-bind', '/dev/null', path]),
    ...host.procHiddenFolders.flatMap((path) => ['--size', '4096', '--tmpfs', path, '--remount-ro', path]),

    ...['--dev', '/dev', ...scratch('/dev/shm', '1777')],
    ...(spec.devices ?? []).flatMap(({ source, target }) => ['--dev-bind', source, target]),
    ...['--remount-ro', '/dev'],
    ...scratch('/tmp', '1777'),
    ...scratch('/var/tmp', '1777'),
    ...['--dir', '/run'],
    ...bound(fds.home, inside.home),
    ...bound(fds.workspace, inside.workspace),
    // The folder and not the sockets, so that the gate may restart and make them anew.
    ...(spec.windows === null ? [] : ['--ro-bind', spec.windows, inside.windows]),
    // Not without execution, which bwrap has no option for.
    ...(fds.caches === undefined ? [] : bound(fds.caches, inside.caches)),
    ...spec.mounts.flatMap(({ source, target }) => ['--ro-bind', source, target]),
    // Last: what lies between the mounts is a file system of its own, which belongs to the cell's user.
    ...['--remount-ro', '/'],

    '--clearenv',
    ...Object.entries(env).flatMap(([name, value]) => ['--setenv', name, value]),
    ...['--chdir', cwd],
  ]
}

/** The namespaces around a cell's own. The cell sees nothing of them, so the first process in there ends the cell whatever code in the
 *  cell does to what it sees: to the first process of its own namespace, which belongs to the same user, it can do anything.
 *  Root of a user's namespace, because only root of one may say how much of the user's it may take. */
export const aroundArgv: readonly string[] = [
  ...['--unshare-user', '--uid', '0', '--gid', '0', '--cap-add', 'ALL'],
  ...['--unshare-pid', '--as-pid-1', '--die-with-parent', '--dev-bind', '/', '/'],
]

/** What runs in those before the cell is made. */
export const limitedThere: readonly string[] = [...['/bin/sh', '-c', `unset PWD OLDPWD SHLVL; ${limitShares}; exec "$@"`, 'sh']]

const bound = (source: number | string, target: string) => [
  typeof source === 'number' ? '--bind-fd' : '--bind',
  String(source),
  target,
]
