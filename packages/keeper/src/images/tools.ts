import { Failure } from '@anchorhold/protocol/failures'
import { spawn } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'

const saidCharsMax = 4_000

export type ToolOptions = {
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
  readonly stdin?: Readable
  readonly stdout?: Writable
  /** Each line of its standard error as it comes. */
  readonly heard?: (line: string) => void
  readonly signal?: AbortSignal
}

/** Runs a program of this machine's to its end, and throws with the last of what it said when it fails. Its standard output is
 *  returned unless it goes elsewhere. */
export async function runTool(name: string, args: readonly string[], options: ToolOptions = {}): Promise<string> {
  const path = findTool(name)
  if (path === null) throw lacksTool(name)
  const child = spawn(path, args, {
    cwd: options.cwd,
    env: { PATH: toolPath, LC_ALL: 'C.UTF-8', DEBIAN_FRONTEND: 'noninteractive', ...options.env },
    stdio: [options.stdin === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    ...(options.signal === undefined ? {} : { signal: options.signal, killSignal: 'SIGKILL' }),
  })
  let [said, out, half] = ['', '', '']
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-saidCharsMax)
    const lines = (half + text).slice(-saidCharsMax).split('\n')
    half = lines.pop() ?? ''
    for (const line of lines) options.heard?.(line)
  })
  const exited = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code) => resolve(code))
  })
  const fed = options.stdin === undefined ? null : pipeline(options.stdin, child.stdin!).catch(() => {}) // its exit code says why
  const drained =
    options.stdout === undefined
      ? void child.stdout!.setEncoding('utf8').on('data', (text: string) => (out += text))
      : pipeline(child.stdout!, options.stdout)
  const [code] = await Promise.all([exited, fed, drained])
  if (code !== 0) throw new Failure('cell_unavailable', `Cannot make the image: "${name}" ended with ${code}: ${lastWords(said)}`)
  return out
}

/** The lines that say what went wrong, if there are any. */
function lastWords(said: string): string {
  const lines = said.split('\n').filter((line) => line.trim() !== '')
  const errors = lines.filter((line) => /^(E:|error|mkfs|tar:)/i.test(line))
  return (errors.length > 0 ? errors : lines).slice(-3).join('; ')
}

/** Programs of the administrator's lie in sbin, which a user's own PATH may leave out. */
const toolPath = [...(process.env.PATH ?? '').split(delimiter), '/usr/bin', '/bin', '/usr/sbin', '/sbin'].join(delimiter)

export function findTool(name: string): string | null {
  const isExecutable = (path: string) => {
    try {
      accessSync(path, constants.X_OK)
      return true
    } catch {
      return false
    }
  }
  return (
    toolPath
      .split(delimiter)
      .filter((folder) => folder !== '')
      .map((folder) => join(folder, name))
      .find(isExecutable) ?? null
  )
}

export function lacksTool(name: string): Failure {
  const known = packages[name]
  return new Failure('cell_unavailable', `Cannot make the image: "${name}" is not installed`, {
    hint: known === undefined ? `Install the program "${name}"` : `sudo apt-get install -y ${known}`,
  })
}

/** Debian's name of the package where a program is found. */
const packages: Readonly<Record<string, string>> = {
  mmdebstrap: 'mmdebstrap',
  'mkfs.erofs': 'erofs-utils',
  'apt-get': 'apt',
  'dpkg-deb': 'dpkg',
  tar: 'tar',
  xz: 'xz-utils',
  'qemu-system-aarch64': 'qemu-system-arm',
  'qemu-system-x86_64': 'qemu-system-x86',
}
