import { Failure } from '@anchorhold/protocol/failures'
import { createWriteStream, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { findImage, type Image, makeImage } from './images.ts'
import { readRecipe, recipeDigest } from './recipes.ts'
import { findTool, lacksTool, runTool } from './tools.ts'

export type BuildOptions = {
  readonly images: string
  /** The folder of recipes. */
  readonly recipes: string
  readonly variant: string
  /** What is being done, in a few words. */
  readonly say: (step: string) => void
}

/** Builds a variant from Debian packages, by the package sources of this machine and without any registry. One that is there already
 *  from the same recipe is left as it is. */
export async function buildImage({ images, recipes, variant, say }: BuildOptions): Promise<Image> {
  const packages = readRecipe(recipes, variant)
  const suite = hostSuite()
  const digest = recipeDigest(packages, suite)
  const there = findImage(images, variant, digest)
  if (there !== null) return there
  if (findTool('mmdebstrap') === null) throw lacksTool('mmdebstrap')
  const mode = buildMode()
  return makeImage({ images, name: variant, digest }, async (root, work) => {
    const archive = join(work, 'root.tar')
    const settings = join(work, 'apt.conf')
    // In a file and not an argument: the address of a proxy may hold a password.
    writeFileSync(settings, await proxySettings(), { mode: 0o600 })
    say(`fetching ${packages.length} packages and what they need`)
    const args = [
      ...[`--mode=${mode}`, '--variant=minbase', `--include=${packages.join(',')}`, '--format=tar'],
      ...[`--aptopt=${settings}`, '--aptopt=Acquire::Languages "none"', '--aptopt=Acquire::Retries "3"'],
      ...['--dpkgopt=path-exclude=/usr/share/man/*', '--dpkgopt=path-exclude=/usr/share/info/*'],
      ...['--dpkgopt=path-exclude=/usr/share/locale/*', '--dpkgopt=path-exclude=/usr/share/doc/*'],
      ...['--dpkgopt=path-include=/usr/share/doc/*/copyright'],
      // A JDK links its manual pages when it is set up, and fails where the folder is not there.
      '--essential-hook=mkdir -p "$1/usr/share/man/man1"',
      ...[suite, '-', ...packageSources()],
    ]
    await runTool('mmdebstrap', args, {
      stdout: createWriteStream(archive, { mode: 0o600 }),
      heard: (line) => sayStep(line, say),
    })
    say('unpacking')
    await runTool('tar', ['--extract', '--no-same-owner', '--exclude=./dev/*', '--file', archive, '--directory', root])
    forgetAccess(root)
  })
}

/** Every cell can read an image: the ways to this machine's proxies and the passwords of its package sources stay out of it. */
export function forgetAccess(root: string): void {
  const apt = join(root, 'etc/apt')
  rmSync(join(apt, 'apt.conf.d/99mmdebstrap'), { force: true })
  const parts = join(apt, 'sources.list.d')
  const sources = ['sources.list', ...(existsSync(parts) ? readdirSync(parts).map((name) => `sources.list.d/${name}`) : [])]
  for (const path of sources.map((name) => join(apt, name)).filter((path) => existsSync(path)))
    writeFileSync(path, readFileSync(path, 'utf8').replaceAll(/:\/\/[^\s/@]*@/g, '://'))
}

/** mmdebstrap tells of each step as `I: …`. */
function sayStep(line: string, say: (step: string) => void): void {
  const step = /^I: ((?:downloading|extracting|installing|creating)[^/]*?)(\.\.\.)?$/.exec(line)?.[1]
  if (step !== undefined) say(step)
}

/** How a system can be put together by this user. Root simply does it; anybody else as the many users that were set aside for them, or
 *  by programs that are told a tale. */
function buildMode(): 'root' | 'unshare' | 'fakechroot' {
  if (process.getuid?.() === 0) return 'root'
  if (['/etc/subuid', '/etc/subgid'].every(hasOwnLine) && findTool('newuidmap') !== null) return 'unshare'
  if (findTool('fakechroot') !== null && findTool('fakeroot') !== null) return 'fakechroot'
  const { username } = userInfo()
  throw new Failure('cell_unavailable', `Cannot build an image as "${username}": no user ids are set aside for this user`, {
    hint: `sudo apt-get install -y uidmap && sudo usermod --add-subuids 200000-265535 --add-subgids 200000-265535 ${username}; or: sudo apt-get install -y fakechroot fakeroot`,
  })
}

function hasOwnLine(path: string): boolean {
  const { username, uid } = userInfo()
  if (!existsSync(path)) return false
  return readFileSync(path, 'utf8')
    .split('\n')
    .some((line) => [username, String(uid)].includes(line.split(':')[0] ?? ''))
}

/** The release that this machine runs: its own package sources have no other. */
function hostSuite(): string {
  const release = existsSync('/etc/os-release') ? readFileSync('/etc/os-release', 'utf8') : ''
  const suite = /^VERSION_CODENAME="?([a-z]+)"?$/m.exec(release)?.[1]
  if (suite === undefined)
    throw new Failure('cell_unavailable', 'Cannot build an image: this system is not Debian or one made from it', {
      hint: 'Bring a root file system of your own: anchorhold image add NAME --from FILE.tar',
    })
  return suite
}

/** Files of sources.list(5) and of its newer form. */
function packageSources(): string[] {
  const parts = '/etc/apt/sources.list.d'
  const found = [
    '/etc/apt/sources.list',
    ...(existsSync(parts)
      ? readdirSync(parts)
          .filter((name) => /\.(list|sources)$/.test(name))
          .map((name) => join(parts, name))
      : []),
  ].filter((path) => existsSync(path))
  return found.filter((path) => /^\s*(deb\s|Types:.*\bdeb\b)/m.test(readFileSync(path, 'utf8')))
}

async function proxySettings(): Promise<string> {
  if (findTool('apt-config') === null) return ''
  const all = await runTool('apt-config', ['dump', 'Acquire'])
  return `${all
    .split('\n')
    .filter((line) => /^Acquire::\w+::Proxy/i.test(line))
    .join('\n')}\n`
}
