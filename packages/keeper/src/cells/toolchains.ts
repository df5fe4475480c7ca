import { readdirSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** A toolchain outside /usr that a cell can be given, read-only and at its own path. */
export type Toolchain = {
  readonly name: string
  readonly mounts: readonly { readonly source: string; readonly target: string }[]
  /** What to put before the cell's PATH. */
  readonly path: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

export type ToolchainOptions = {
  /** Who will use what is found, where that is another user; what that user cannot reach is left out. */
  readonly user?: { readonly uid: number; readonly gid: number }
  /** `/` but in tests. */
  readonly root?: string
}

/** What of this machine's toolchains could be offered. Only folders of programs are mounted, never one beside them that
 *  holds settings or credentials (~/.cargo, ~/.nvm, ~/.sdkman), nor a socket of the host (/nix/var). */
export function findToolchains(home: string, { user, root = '/' }: ToolchainOptions = {}): Toolchain[] {
  const at = (...parts: string[]) => join(home, ...parts)
  const found: (Toolchain | null)[] = [
    versioned('nvm', at('.nvm/versions/node'), wantedBy(at('.nvm/alias/default')), 'bin'),
    versioned('fnm', at('.local/share/fnm/node-versions'), null, 'installation/bin'),
    versioned('volta', at('.volta/tools/image/node'), null, 'bin'),
    versioned('pyenv', at('.pyenv/versions'), wantedBy(at('.pyenv/version')), 'bin'),
    rust(at('.rustup'), at('.cargo/bin')),
    sdkman(at('.sdkman/candidates')),
    collection('asdf', at('.asdf/installs')),
    collection('mise', at('.local/share/mise/installs')),
    plain('bun', at('.bun/bin')),
    plain('deno', at('.deno/bin')),
    nix(join(root, 'nix'), at('.nix-profile')),
    ...foldersIn(join(root, 'opt')).map((name) => optional(name, join(root, 'opt', name))),
  ]
  return found.filter(
    (each): each is Toolchain => each !== null && each.path.length > 0 && each.mounts.every(({ source }) => isFit(source)),
  )

  function isFit(source: string): boolean {
    return !holdsCredentials(source) && (user === undefined || canReach(source, user))
  }
}

function offer(name: string, sources: readonly string[], path: readonly string[], env: Record<string, string> = {}): Toolchain {
  return { name, mounts: sources.map((source) => ({ source, target: source })), path: path.filter(isFolder), env }
}

/** A folder of versions, of which one is put into the PATH: the one that is asked for, or the newest. */
function versioned(name: string, folder: string, wanted: string | null, bin: string): Toolchain | null {
  const version = pickVersion(foldersIn(folder), wanted)
  return version === null ? null : offer(name, [folder], [join(folder, version, bin)])
}

/** `installs/TOOL/VERSION/bin` */
function collection(name: string, folder: string): Toolchain | null {
  const path = foldersIn(folder).flatMap((tool) => {
    const version = pickVersion(foldersIn(join(folder, tool)), null)
    return version === null ? [] : [join(folder, tool, version, 'bin')]
  })
  return offer(name, [folder], path)
}

function rust(rustup: string, cargoBin: string): Toolchain | null {
  const wanted = /^default_toolchain = "([^"]+)"$/m.exec(readOrEmpty(join(rustup, 'settings.toml')))?.[1] ?? null
  const toolchains = join(rustup, 'toolchains')
  const names = foldersIn(toolchains)
  const name = wanted !== null && names.includes(wanted) ? wanted : names[0]
  if (name === undefined) return null
  const extras = isFolder(cargoBin) ? [cargoBin] : []
  return offer('rustup', [toolchains, ...extras], [join(toolchains, name, 'bin'), ...extras])
}

function sdkman(folder: string): Toolchain | null {
  const java = join(folder, 'java', 'current')
  const path = foldersIn(folder).map((candidate) => join(folder, candidate, 'current', 'bin'))
  return offer('sdkman', [folder], path, isFolder(java) ? { JAVA_HOME: java } : {})
}

const plain = (name: string, folder: string) => (isFolder(folder) ? offer(name, [folder], [folder]) : null)

/** The store alone: beside it lies the socket of a daemon that builds on the host. */
function nix(folder: string, userProfile: string): Toolchain | null {
  const profiles = [userProfile, join(folder, 'var/nix/profiles/default')]
  const path = profiles.flatMap((profile) => (isFolder(join(profile, 'bin')) ? [realpathSync(join(profile, 'bin'))] : []))
  return isFolder(join(folder, 'store')) ? offer('nix', [join(folder, 'store')], path) : null
}

const optional = (name: string, folder: string) =>
  isFolder(join(folder, 'bin')) ? offer(name, [folder], [join(folder, 'bin')]) : null

/** The newest of those that begin with what is wanted (`20`, `v20.1`, `3.12`), or else the newest. */
export function pickVersion(versions: readonly string[], wanted: string | null): string | null {
  const bare = (version: string) => version.replace(/^v/, '')
  const newestFirst = versions
    .filter((version) => /^v?\d/.test(version))
    .sort((a, b) => bare(b).localeCompare(bare(a), 'en', { numeric: true }))
  const matching = wanted === null ? [] : newestFirst.filter((version) => `${bare(version)}.`.startsWith(`${bare(wanted)}.`))
  return matching[0] ?? newestFirst[0] ?? null
}

const wantedBy = (file: string) => readOrEmpty(file).split('\n')[0]?.trim() || null

const credentialNames =
  /^(\.?credentials.*|\.netrc|\.npmrc|\.pypirc|\.git-credentials|\.env(\..*)?|auth\.json|id_(rsa|dsa|ecdsa|ed25519)|.*\.(key|p12|pfx|kdbx)|\.(aws|ssh|gnupg|docker|kube))$/
const credentialDepth = 2

/** Whether a name near the top of the folder looks like a secret. */
export function holdsCredentials(folder: string, depth = credentialDepth): boolean {
  return entriesOf(folder).some(
    (entry) =>
      credentialNames.test(entry.name) ||
      (depth > 1 && entry.isDirectory() && holdsCredentials(join(folder, entry.name), depth - 1)),
  )
}

/** Whether the user may go down to the path, by the permission bits alone. */
function canReach(path: string, user: { readonly uid: number; readonly gid: number }): boolean {
  const stat = statSync(path)
  const bits = stat.uid === user.uid ? stat.mode >> 6 : stat.gid === user.gid ? stat.mode >> 3 : stat.mode
  const isOpen = (bits & 1) !== 0
  return isOpen && (dirname(path) === path || canReach(dirname(path), user))
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory()
  } catch {
    return false
  }
}

const foldersIn = (folder: string) =>
  entriesOf(folder)
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
    .sort()

function entriesOf(folder: string) {
  try {
    return readdirSync(folder, { withFileTypes: true })
  } catch {
    return []
  }
}

function readOrEmpty(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
