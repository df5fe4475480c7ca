// Brings a clone to where it can run: dependencies, the built programs, bubblewrap. Runs on any Node from 18 on.
//   node bin/setup.mjs [--for-tests [--for-machines]]
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  accessSync,
  chmodSync,
  constants,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir, userInfo } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const modules = join(root, 'node_modules')

/** A published package comes installed and built. */
const isClone = existsSync(join(root, 'packages'))

export async function setUp({ quiet = false } = {}) {
  if (!isClone) return
  await install(quiet)
  await build(quiet)
}

/** The Node that this release is made for: the machine's own when it is new enough, the one from npm otherwise. */
export function pinnedNode() {
  const [major, minor] = process.versions.node.split('.').map(Number)
  if (major > 24 || (major === 24 && minor >= 11)) return process.execPath
  const found = [
    join(modules, `node-${process.platform}-${process.arch}`, 'bin', 'node'),
    join(root, '..', `node-${process.platform}-${process.arch}`, 'bin', 'node'),
  ].find((path) => existsSync(path))
  if (found === undefined)
    throw new Error(
      `Anchorhold needs Node 24.11 or newer; this is ${process.version}, and none came from npm for ${process.platform} ${process.arch}`,
    )
  return found
}

async function install(quiet) {
  const stamp = join(modules, '.anchorhold-installed')
  const wanted = createHash('sha256')
    .update(readFileSync(join(root, 'package-lock.json')))
    .update(`${process.platform} ${process.arch}`)
    .digest('hex')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return
  requireOwn()
  if (!isInstalled())
    await step('installing dependencies (about a minute, 1 GB)', quiet, npmCommand(), ['ci', '--no-audit', '--no-fund'])
  writeFileSync(stamp, wanted)
}

/** Whether somebody has run npm by themselves: it writes down what it has installed when it is done. */
function isInstalled() {
  const has = packagesIn(join(modules, '.package-lock.json'))
  const wants = Object.entries(packagesIn(join(root, 'package-lock.json')) ?? {})
  return (
    has != null &&
    wants.every(([path, one]) => !path.startsWith('node_modules/') || isSame(one, has[path]) || (one.optional && !isForHere(one)))
  )
}

/** Of those that are made for one kind of system each. */
const isForHere = ({ os, cpu, libc = ['glibc'] }) =>
  os?.includes(process.platform) && cpu?.includes(process.arch) && libc.includes('glibc')

const isSame = (one, other) => other !== undefined && one.version === other.version && one.integrity === other.integrity

function packagesIn(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8')).packages
  } catch {
    return null // npm has not been here, or was in the middle of it
  }
}

/** Refuses what npm and the build would fail at with words of their own: a clone that this user may only read. Once its owner has run
 *  it, others may. */
function requireOwn() {
  const folders = [root, modules, join(root, 'dist')].filter((folder) => existsSync(folder))
  const closed = folders.find((folder) => !mayWrite(folder))
  if (closed === undefined) return
  const owner = ownerOf(closed)
  const why = owner === null ? 'it cannot be written to' : `it belongs to "${owner}"`
  throw new Error(
    `Cannot install and build in "${closed}": ${why}\n` +
      '  Have its owner run it once: npx anchorhold status; or work in a clone of your own: git clone, from where this one came',
  )
}

function mayWrite(folder) {
  try {
    accessSync(folder, constants.W_OK)
    return true
  } catch {
    return false
  }
}

/** The name of another user whose folder it is; null where it is this user's own. */
function ownerOf(folder) {
  const { uid } = statSync(folder)
  if (uid === process.getuid()) return null
  const line = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find((one) => one.split(':')[2] === String(uid))
  return line === undefined ? String(uid) : line.split(':')[0]
}

async function build(quiet) {
  if (isBuilt()) return
  requireOwn()
  // Two that build at once take each other's files away. Whoever comes second finds it done.
  await alone(join(modules, '.anchorhold-building'), async () => {
    if (!isBuilt()) await step('building', quiet, pinnedNode(), [join(root, 'scripts', 'build.ts')])
  })
}

function isBuilt() {
  const output = join(root, 'dist', 'cli.mjs')
  const built = existsSync(output) ? statSync(output).mtimeMs : 0
  return (
    built > Math.max(...['packages', 'test/attacks', 'scripts'].map((folder) => newest(join(root, folder)))) &&
    built > statSync(join(root, 'package-lock.json')).mtimeMs
  )
}

/** Does something while nobody else does, who goes by the same file. One that was left by a process that has ended counts for nothing. */
async function alone(lock, work) {
  while (!takes(lock)) await new Promise((resolve) => setTimeout(resolve, 100))
  try {
    await work()
  } finally {
    rmSync(lock, { force: true })
  }
}

function takes(lock) {
  try {
    writeFileSync(lock, String(process.pid), { flag: 'wx' })
    return true
  } catch (error) {
    if (error.code !== 'EEXIST') throw error
  }
  try {
    process.kill(Number(readFileSync(lock, 'utf8')), 0)
  } catch (error) {
    if (error.code === 'ESRCH') rmSync(lock, { force: true })
  }
  return false
}

/** Of all that lies in a folder; what was removed or renamed shows in the folder's own time. */
function newest(folder) {
  let time = statSync(folder).mtimeMs
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.name === 'node_modules') continue
    const path = join(folder, entry.name)
    time = Math.max(time, entry.isDirectory() ? newest(path) : statSync(path).mtimeMs)
  }
  return time
}

/** Whether this command line starts cells, or says that they can be. */
export function startsCells(argv) {
  const words = []
  for (let at = 0; at < argv.length && words.length < 2 && argv[at] !== '--'; at++) {
    if (argv[at] === '--state' || argv[at] === '--token-file') at++
    else if (!argv[at].startsWith('-')) words.push(argv[at])
    else if (words.length > 0) break
  }
  const [command, verb] = words
  return (
    ['up', 'run', 'sandbox', 'claude', 'prove', 'doctor'].includes(command) ||
    (command === 'provider' && verb === 'add') ||
    (command === 'service' && verb === 'install')
  )
}

/** bubblewrap makes the default cell. Root, and who may use sudo without a password, get Debian's package installed. Anybody
 *  else on such a system gets the program out of the same signed package, for themselves alone. Elsewhere the daemon says
 *  what to do and refuses sessions. */
export async function provideBubblewrap({ quiet = false } = {}) {
  if (process.platform !== 'linux' || findProgram('bwrap') !== null) return
  const own = join(userInfo().homedir, '.local/share/anchorhold')
  if (existsSync(join(own, 'bin/bwrap'))) return
  if (!/debian/.test(osFamily()) || findProgram('apt-get') === null) return
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const root = process.getuid() === 0
  const sudo = !root && findProgram('sudo') !== null && spawnSync('sudo', ['-n', 'true'], { stdio: 'ignore' }).status === 0
  try {
    if (root || sudo) {
      const [command, ...args] = [...(sudo ? ['sudo', '-n'] : []), 'apt-get', '-qq', '-o', 'Dpkg::Use-Pty=0']
      await step('bubblewrap is missing: installing it with apt-get', quiet, command, [...args, 'update'], { env })
      await step('', quiet, command, [...args, 'install', '-y', '--no-install-recommends', 'bubblewrap'], { env })
      if (!quiet) console.error('anchorhold: installed bubblewrap')
    } else {
      await unpackBubblewrap(own, quiet, env)
      if (!quiet) console.error(`anchorhold: put bubblewrap into ${own}/bin, for you alone`)
    }
  } catch (error) {
    console.error(`anchorhold: could not provide bubblewrap (${error.message.split('\n')[0]})`)
  }
}

/** What the tests of the other rungs need, by the program that says whether it is there. Only where it can be installed without a
 *  question; elsewhere those tests say what they miss. */
const forTests = {
  podman: 'podman',
  conmon: 'conmon',
  runc: 'runc',
  catatonit: 'catatonit',
  newuidmap: 'uidmap',
  runsc: 'runsc',
  busybox: 'busybox-static',
  chromium: 'chromium',
  curl: 'curl',
  '/usr/bin/pip3': 'python3-pip',
}

/** The same for `npm run test:toolchains`. */
const forToolchains = {
  '/usr/bin/cargo': 'cargo',
  '/usr/bin/go': 'golang-go',
  '/usr/bin/mvn': 'maven',
  '/usr/bin/gradle': 'gradle',
  '/usr/bin/git-lfs': 'git-lfs',
  '/usr/bin/gh': 'gh',
}

/** Clients that come from npm, in a folder of that suite's own: nothing else needs them. */
async function installToolchains() {
  const folder = join(root, 'test/toolchains/clients')
  if (existsSync(join(folder, 'node_modules'))) return
  await step(
    'installing clients for the tests of toolchains',
    false,
    npmCommand(),
    ['ci', '--no-audit', '--no-fund', '--ignore-scripts'],
    {
      cwd: folder,
    },
  )
}

/** The same for `npm run test:machines`, which is a lot more. */
const emulator =
  process.arch === 'arm64' ? { 'qemu-system-aarch64': 'qemu-system-arm' } : { 'qemu-system-x86_64': 'qemu-system-x86' }
const forMachines = { mmdebstrap: 'mmdebstrap', 'mkfs.erofs': 'erofs-utils', cpio: 'cpio', xz: 'xz-utils', ...emulator }

async function provideForTests(wanted) {
  const isThere = (program) => (program.startsWith('/') ? existsSync(program) : findProgram(program) !== null)
  const missing = Object.entries(wanted).flatMap(([program, name]) => (isThere(program) ? [] : [name]))
  if (missing.length === 0 || !/debian/.test(osFamily()) || findProgram('apt-get') === null || process.getuid() !== 0) return
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const apt = ['-qq', '-o', 'Dpkg::Use-Pty=0']
  try {
    await step(`installing for the tests: ${missing.join(' ')}`, false, 'apt-get', [...apt, 'update'], { env })
    await step('', false, 'apt-get', [...apt, 'install', '-y', '--no-install-recommends', ...missing], { env })
  } catch (error) {
    console.error(`anchorhold: could not install ${missing.join(' ')} (${error.message.split('\n')[0]})`)
  }
}

/** apt checks the package's signature as ever; only its folders are the user's own. */
async function unpackBubblewrap(own, quiet, env) {
  const work = mkdtempSync(join(tmpdir(), 'anchorhold-apt-'))
  try {
    for (const folder of ['lists/partial', 'cache/archives/partial']) mkdirSync(join(work, folder), { recursive: true })
    const apt = [
      '-qq',
      '-o',
      `Dir::State::lists=${work}/lists`,
      '-o',
      `Dir::Cache=${work}/cache`,
      '-o',
      'Debug::NoLocking=true',
      '-o',
      'APT::Sandbox::User=',
    ]
    await step('bubblewrap is missing: unpacking it for you from the Debian package', quiet, 'apt-get', [...apt, 'update'], {
      env,
    })
    await step('', quiet, 'apt-get', [...apt, 'download', 'bubblewrap'], { env, cwd: work })
    const deb = readdirSync(work).find((name) => name.endsWith('.deb'))
    await step('', quiet, 'dpkg-deb', ['-x', join(work, deb), join(work, 'out')], { env })
    mkdirSync(join(own, 'bin'), { recursive: true })
    copyFileSync(join(work, 'out/usr/bin/bwrap'), join(own, 'bin/bwrap'))
    chmodSync(join(own, 'bin/bwrap'), 0o755)
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

function osFamily() {
  try {
    const text = readFileSync('/etc/os-release', 'utf8')
    return (text.match(/^ID(_LIKE)?=.*$/gm) ?? []).join(' ')
  } catch {
    return ''
  }
}

function findProgram(name) {
  for (const folder of [...(process.env.PATH ?? '').split(delimiter), '/usr/bin', '/usr/sbin']) {
    try {
      const path = join(folder, name)
      accessSync(path, constants.X_OK)
      return path
    } catch {}
  }
  return null
}

function npmCommand() {
  return process.platform === 'win32' ? 'npm.cmd' : 'npm'
}

/** Runs one step, with a moving word on a terminal and its output only when it fails. */
function step(label, quiet, command, args, { env = process.env, cwd = root } = {}) {
  const moving = !quiet && label !== '' && process.stderr.isTTY
  if (!quiet && label !== '' && !moving) console.error(`anchorhold: ${label}`)
  const started = Date.now()
  const timer = moving
    ? setInterval(() => process.stderr.write(`\r  ${label} … ${Math.round((Date.now() - started) / 1000)} s `), 200)
    : undefined
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'], env })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output = (output + text).slice(-20_000)))
    child.once('error', reject)
    child.once('exit', (code) => {
      clearInterval(timer)
      if (moving) process.stderr.write(`\r  ${label} … ${((Date.now() - started) / 1000).toFixed(1)} s\n`)
      if (code === 0) resolve()
      else reject(new Error(`"${command} ${args.join(' ')}" failed with code ${code}\n${output}`))
    })
  })
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    await setUp()
    if (process.argv.includes('--for-tests')) {
      await provideBubblewrap()
      await provideForTests({
        ...forTests,
        ...(process.argv.includes('--for-machines') ? forMachines : {}),
        ...(process.argv.includes('--for-toolchains') ? forToolchains : {}),
      })
      if (process.argv.includes('--for-toolchains')) await installToolchains()
    }
  } catch (error) {
    console.error(error.message)
    process.exit(1)
  }
}
