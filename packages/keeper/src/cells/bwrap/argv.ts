import type { CellSpec, SpawnOptions } from '../cell.ts'
import type { HostRoot } from './host-root.ts'

/** Where a cell finds its own things, whatever the session. */
export const inside = { workspace: '/workspace', home: '/home/agent', windows: '/run/windows' } as const

/** What the standard streams of a process are: pipes to this process, or the terminal that this one is on. */
export type Streams = 'pipes' | 'terminal'

/** Descriptors that bwrap is given. It closes each after use, so none of them reaches the command. */
export type BwrapFds = {
  readonly seccomp: number
  /** What is copied into the cell's root, by its path there. */
  readonly files: Readonly<Record<string, number>>
  /** bwrap tells here which process it has made, */
  readonly status: number
  /** and waits here before it starts the command. */
  readonly block: number
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
    ...['--seccomp', String(fds.seccomp), '--json-status-fd', String(fds.status), '--block-fd', String(fds.block)],

    ...host.trees.flatMap((path) => ['--ro-bind', path, path]),
    ...host.links.flatMap(({ path, target }) => ['--symlink', target, path]),
    ...Object.entries(fds.files).flatMap(([path, fd]) => ['--perms', '0444', '--file', String(fd), path]),

    ...['--proc', '/proc'],
    // For root's sake: a real drop of the uid guards these as well, and one guard is not enough.
    ...host.procReadOnly.flatMap((path) => ['--ro-bind', path, path]),
    // A device node on a mount without devices: whoever opens it is refused.
    ...host.procHiddenFiles.flatMap((path) => ['--ro-bind', '/dev/null', path]),
    ...host.procHiddenFolders.flatMap((path) => ['--size', '4096', '--tmpfs', path, '--remount-ro', path]),

    ...['--dev', '/dev', ...scratch('/dev/shm', '1777'), '--remount-ro', '/dev'],
    ...scratch('/tmp', '1777'),
    ...scratch('/var/tmp', '1777'),
    ...['--dir', '/run'],
    ...['--bind', spec.home, inside.home, '--bind', spec.workspace, inside.workspace],
    ...spec.covers.flatMap(({ path, by }) => ['--ro-bind', by, `${inside.workspace}${path.slice(spec.workspace.length)}`]),
    // The folder and not the sockets, so that the gate may restart and make them anew.
    ...(spec.windows === null ? [] : ['--ro-bind', spec.windows, inside.windows]),
    ...spec.mounts.flatMap(({ source, target }) => ['--ro-bind', source, target]),
    // Last: what lies between the mounts is a file system of its own, which belongs to the cell's user.
    ...['--remount-ro', '/'],

    '--clearenv',
    ...Object.entries(env).flatMap(([name, value]) => ['--setenv', name, value]),
    ...['--chdir', cwd],
  ]
}

/** What is made up rather than taken from the host. */
export const generatedFiles = {
  '/etc/passwd': [
    'root:x:0:0:root:/nonexistent:/usr/sbin/nologin',
    'agent:x:1000:1000:agent:/home/agent:/bin/bash',
    'nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin',
    '',
  ].join('\n'),
  '/etc/group': 'root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n',
  '/etc/hosts': '127.0.0.1 localhost cell\n::1 localhost cell\n',
  '/etc/nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n',
  '/etc/resolv.conf': '',
} as const satisfies Record<string, string>

/** What a cell with the host's network takes from the host instead: without them no name is found. */
export const hostNetworkFiles = ['/etc/hosts', '/etc/nsswitch.conf', '/etc/resolv.conf'] as const

/** Where a mount may show up; elsewhere it would hide a part of the cell's own root. */
export function isPlaceForMount({ source, target }: CellSpec['mounts'][number]): boolean {
  if (!/^(\/[^/\0]+)+$/.test(target) || target.split('/').some((part) => part === '.' || part === '..')) return false
  const [, top = ''] = target.split('/')
  if (['opt', 'nix'].includes(top)) return true
  if (top === 'run') return target !== '/run' && !isWithin(target, inside.windows)
  return target === source && !taken.includes(top) && !isWithin(target, inside.home) && !isWithin(inside.home, target)
}

const taken = ['usr', 'bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32', 'etc', 'proc', 'sys', 'dev', 'tmp', 'var', 'workspace']

/** Whether `path` is `folder` or lies in it. */
export const isWithin = (path: string, folder: string) => path === folder || path.startsWith(`${folder}/`)
