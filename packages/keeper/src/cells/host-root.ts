import { lstatSync, readdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'

/** What of this host's root a cell gets to see. All of it is read-only. */
export type HostRoot = {
  /** Folders, bound at their own path. */
  readonly trees: readonly string[]
  /** Copied to their own path: a mount costs bwrap more than a small file does. */
  readonly files: readonly string[]
  readonly links: readonly { readonly path: string; readonly target: string }[]
  readonly procReadOnly: readonly string[]
  readonly procHiddenFiles: readonly string[]
  readonly procHiddenFolders: readonly string[]
}

/** What tools need of /etc. Nothing here holds a credential: no gitconfig, no npmrc, no pip.conf, no maven settings,
 *  no environment, no profile.d. Of folders that also hold private things, only the parts that do not. */
const etcWanted = [
  ...['ld.so.cache', 'ld.so.conf', 'ld.so.conf.d', 'alternatives', 'localtime', 'os-release', 'mtab'],
  ...['mime.types', 'services', 'protocols', 'profile', 'bash.bashrc', 'fonts'],
  ...[
    'ca-certificates',
    'ssl/certs',
    'ssl/openssl.cnf',
    'pki/tls/certs',
    'pki/tls/openssl.cnf',
    'pki/ca-trust',
    'crypto-policies',
  ],
  ...['maven/m2.conf', 'maven/logging'],
]
const isJava = (name: string) => /^java(-\d+-openjdk)?$/.test(name)

const procReadOnly = ['/proc/sys', '/proc/sysrq-trigger', '/proc/irq', '/proc/bus', '/proc/pressure']
const procHiddenFiles = ['/proc/kcore', '/proc/keys', '/proc/key-users', '/proc/timer_list', '/proc/sched_debug', '/proc/kmsg']
const procHiddenFolders = ['/proc/acpi', '/proc/scsi']

/** Looks at the host: merged-usr (bin is a link) or not, and what is there at all. `root` is `/` but in tests. */
export function readHostRoot(root = '/'): HostRoot {
  const at = (path: string) => join(root, path)
  const etc = [...etcWanted, ...namesIn(at('/etc')).filter(isJava)].map((name) => `/etc/${name}`)
  const present = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32', ...etc].flatMap((path) => {
    const stat = lstatSync(at(path), { throwIfNoEntry: false })
    return stat === undefined ? [] : [{ path, isLink: stat.isSymbolicLink(), isFile: stat.isFile() }]
  })
  const isThere = (path: string) => lstatSync(at(path), { throwIfNoEntry: false }) !== undefined
  return {
    trees: present.filter(({ isLink, isFile }) => !isLink && !isFile).map(({ path }) => path),
    files: present.filter(({ isFile }) => isFile).map(({ path }) => path),
    links: present.filter(({ isLink }) => isLink).map(({ path }) => ({ path, target: readlinkSync(at(path)) })),
    procReadOnly: procReadOnly.filter(isThere),
    procHiddenFiles: procHiddenFiles.filter(isThere),
    procHiddenFolders: procHiddenFolders.filter(isThere),
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}
