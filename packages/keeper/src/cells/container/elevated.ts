import type { Extras } from '@anchorhold/protocol/sessions'
import { existsSync, lstatSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { CellSpec, Lack } from '../cell.ts'
import { resolveIn } from './root.ts'

/** What a cell with `sudo` or `nested` has of root's inside. Images have no set-user-id program, and nothing in them is owned by root
 *  inside; so these few files are copied, given to that root and laid over the image in the cell's own namespaces. Root inside is
 *  one of the session's own range of users outside, who owns nothing there. */
export type Elevated = {
  /** Of the image, each with its mode. */
  readonly copied: readonly { readonly path: string; readonly mode: string }[]
  /** Of ours. */
  readonly written: readonly { readonly path: string; readonly mode: string; readonly content: string }[]
}

type Wanted = Pick<Extras, 'sudo' | 'nested'>
/** Those that become root. */
const programs = { sudo: ['/usr/bin/sudo'], nested: ['/usr/bin/newuidmap', '/usr/bin/newgidmap'] } as const
const plugins = '/usr/libexec/sudo'

/** Without asking PAM: there is no password to ask for, and the root file system cannot be written to. */
const sudoers = [
  'Defaults !pam_acct_mgmt, !pam_session, !pam_setcred, !syslog, !lecture, timestamp_timeout=0',
  'Defaults secure_path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"',
  'root ALL=(ALL:ALL) NOPASSWD: ALL',
  '#1000 ALL=(ALL:ALL) NOPASSWD: ALL',
  '',
].join('\n')
/** Of the users that the cell has, those that an engine inside may give to containers of its own. */
const innerRange = 'agent:2000:60000\n'

/** Containers of the cell's own have the cell's network, which is its loopback with the way to the net window: there is no device for
 *  another. Control groups are not theirs to make. */
const innerEngine = [
  ...['[containers]', 'netns = "host"', 'cgroups = "disabled"', 'default_ulimits = []'],
  ...['[engine]', 'cgroup_manager = "cgroupfs"', 'events_logger = "file"', ''],
].join('\n')

/** Null for a cell that has nothing of root's. */
export function elevatedOf(root: string | null, { sudo, nested }: Wanted): Elevated | null {
  if (root === null || (!sudo && !nested)) return null
  const inRoot = (path: string) => resolveIn(root, path)
  return {
    copied: [
      ...[...(sudo ? programs.sudo : []), ...(nested ? programs.nested : [])].map((path) => ({
        path: inRoot(path),
        mode: '4755',
      })),
      ...(sudo ? pluginsIn(root).map((path) => ({ path, mode: '0644' })) : []),
    ],
    written: [
      ...(sudo
        ? [
            { path: inRoot('/etc/sudoers'), mode: '0440', content: sudoers },
            { path: inRoot('/etc/sudo.conf'), mode: '0644', content: '' },
          ]
        : []),
      ...(nested
        ? [
            ...['/etc/subuid', '/etc/subgid'].map((path) => ({ path: inRoot(path), mode: '0644', content: innerRange })),
            { path: inRoot('/etc/containers/containers.conf'), mode: '0644', content: innerEngine },
          ]
        : []),
    ],
  }
}

/** Why an image does not do for it. */
export function lacksElevated({ root, extras }: Pick<CellSpec, 'root' | 'extras'>): Lack[] {
  const wanted = (['sudo', 'nested'] as const).filter((extra) => extras[extra])
  if (wanted.length === 0) return []
  const remedy = 'anchorhold image build --variant dev, and then --image dev'
  if (root === null)
    return [
      { what: `${wanted.join(' and ')} inside needs an image, since programs of this machine give no rights in a cell`, remedy },
    ]
  const absent = wanted.flatMap((extra) => programs[extra].filter((path) => !existsSync(join(root, resolveIn(root, path)))))
  return absent.length === 0 ? [] : [{ what: `the image has no ${absent.join(', ')}`, remedy }]
}

/** Writes what the shell below lays over the image, in the folder that it is given. */
export function writeElevated(folder: string, { written }: Elevated): void {
  for (const { path, content } of written) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), content, { mode: 0o600 })
  }
}

export type Layer = {
  /** Where it is made. */
  readonly at: string
  readonly image: string
  /** The folder of `writeElevated`. */
  readonly written: string
}

/** In words of a shell that is root of the cell's namespaces, where the user with the number 1 is root inside. */
export function elevating({ copied, written }: Elevated, layer: Layer): string {
  const step = (from: string, { path, mode }: { readonly path: string; readonly mode: string }) => {
    const file = quote(join(layer.at, path))
    // The owner first: giving a file away takes the bit from it.
    return `mkdir -p ${quote(dirname(join(layer.at, path)))}; cp ${quote(join(from, path))} ${file}; chown 1:1 ${file}; chmod ${mode} ${file}`
  }
  return [
    `mount -t tmpfs -o mode=755,size=${layerBytes} tmpfs ${quote(layer.at)}`,
    ...copied.map((each) => step(layer.image, each)),
    ...written.map((each) => step(layer.written, each)),
  ].join('; ')
}
const layerBytes = 64 * 2 ** 20
const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

function pluginsIn(root: string): string[] {
  const folder = resolveIn(root, plugins)
  const names = existsSync(join(root, folder)) ? readdirSync(join(root, folder)) : []
  const paths = names.filter((name) => /^[\w.-]+\.so[\d.]*$/.test(name)).map((name) => join(folder, name))
  return paths.filter((path) => lstatSync(join(root, path)).isFile())
}
