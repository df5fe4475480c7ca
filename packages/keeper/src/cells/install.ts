import { accessSync, constants, readFileSync } from 'node:fs'

/** Reads a kernel or system file, null when it is not there. An argument, so that other machines can be made up. */
export type ReadText = (path: string) => string | null

export const readText: ReadText = (path) => {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return null
  }
}

export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** The command that installs a package on the machine whose files `read` gives. */
export function installCommand(read: ReadText, name: string, version?: string): string {
  const release = read('/etc/os-release') ?? ''
  const ids = [...release.matchAll(/^ID(?:_LIKE)?="?([^"\n]*)"?$/gm)].flatMap(([, value = '']) => value.split(' '))
  const command = ids.flatMap((id) => commands[id] ?? []).at(0)
  const wanted = version === undefined ? `"${name}"` : `"${name}" (${version})`
  return command === undefined ? `Install the package ${wanted} with your package manager` : `sudo ${command} ${name}`
}

const commands: Readonly<Record<string, string>> = {
  debian: 'apt-get install -y',
  ubuntu: 'apt-get install -y',
  fedora: 'dnf install -y',
  rhel: 'dnf install -y',
  arch: 'pacman -S --noconfirm',
  alpine: 'apk add',
  suse: 'zypper --non-interactive install',
  opensuse: 'zypper --non-interactive install',
}
