/** Why a host folder may not be given to a cell, or null when nothing speaks against its path. `path` is absolute and
 *  has every link resolved. */
export function refusePath(
  path: string,
  { home, own }: { readonly home: string; readonly own: readonly string[] },
): string | null {
  if (!path.startsWith('/') || path.includes('\0')) return 'it is not an absolute path'
  if (path === '/') return 'it is the whole file system'
  if (systemFolders.some((folder) => isWithin(path, folder))) return 'it belongs to the system'
  if (systemRoots.includes(path)) return 'it holds the folders of the system or of all users'
  if (path === home) return 'it is a whole home folder, with its keys and settings'
  for (const folder of own) {
    if (isWithin(path, folder)) return 'it belongs to Anchorhold itself'
    if (isWithin(folder, path)) return 'it contains what Anchorhold keeps for itself'
  }
  if (privateFolders.some((name) => isWithin(path, `${home}/${name}`))) return 'it holds keys or settings of yours'
  return null
}

const systemFolders = ['/bin', '/boot', '/dev', '/etc', '/lib', '/lib64', '/proc', '/run', '/sbin', '/sys', '/usr'] as const
const systemRoots: readonly string[] = ['/home', '/root', '/var', '/opt', '/mnt', '/media', '/srv', '/tmp', '/nix']
const privateFolders = ['.ssh', '.gnupg', '.aws', '.config', '.kube', '.docker', '.claude', '.local/state'] as const

export const isWithin = (path: string, folder: string): boolean =>
  path === folder || path.startsWith(`${folder.replace(/\/$/, '')}/`)
