import { execFile } from 'node:child_process'
import { readFileSync, statSync } from 'node:fs'
import { promisify } from 'node:util'
import { gunzipSync } from 'node:zlib'
import type { Installed, ProgramName } from './holes.ts'

const packages: Readonly<Record<ProgramName, string>> = {
  ...{ bwrap: 'bubblewrap', podman: 'podman', runc: 'runc', crun: 'crun', runsc: 'runsc' },
}
const answerMs = 10_000
const answerBytesMax = 64 * 1024
const changelogBytesMax = 8 * 2 ** 20
const setuid = 0o4000

/** A program of this machine, by what it says of itself; null where it is not there. */
export async function lookAt(name: ProgramName, path: string | null): Promise<Installed | null> {
  const mode = path === null ? undefined : statSync(path, { throwIfNoEntry: false })?.mode
  if (path === null || mode === undefined) return null
  const said = await promisify(execFile)(path, ['--version'], {
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/nonexistent' },
    cwd: '/',
    timeout: answerMs,
    maxBuffer: answerBytesMax,
  }).then(
    ({ stdout }) => stdout,
    // One that does not say its version has none that is known.
    () => '',
  )
  return { name, path, said, isSetuid: (mode & setuid) !== 0, changelog: changelogOf(name), runs: 'rootless' }
}

/** What Debian and its like have changed in the package, each hole that they mended by its number. */
export function changelogOf(name: ProgramName): string | null {
  try {
    const packed = readFileSync(`/usr/share/doc/${packages[name]}/changelog.Debian.gz`)
    return gunzipSync(packed, { maxOutputLength: changelogBytesMax }).toString('utf8')
  } catch {
    return null // another distribution, or a machine without documents
  }
}
