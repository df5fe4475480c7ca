// Runs a command in a clean clone of the last commit, in a bare Debian of any release: nothing but Node, npm and git.
//   node scripts/in-debian.ts RELEASE [--user] [-- COMMAND]        as root; needs mmdebstrap; the command is npm test otherwise
// The base system is made once for each release, and kept in the temporary folder.
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

const [release = '', ...rest] = process.argv.slice(2)
const end = rest.indexOf('--')
const flags = end === -1 ? rest : rest.slice(0, end)
const command = end === -1 ? 'npm test' : rest.slice(end + 1).join(' ')
const npm = process.env.npm_execpath
if (!/^[a-z]+$/.test(release) || flags.some((flag) => flag !== '--user') || command === '' || npm === undefined) {
  console.error('usage: npm run in:debian -- RELEASE [--user] [-- COMMAND]')
  process.exit(64)
}
const user = flags.includes('--user') ? 'dev' : 'root'
const home = user === 'root' ? '/root' : `/home/${user}`

const base = join(tmpdir(), `anchorhold-debian-${release}.tar`)
if (!existsSync(base)) {
  const packages = 'git,ca-certificates,passwd,procps,iproute2'
  run('mmdebstrap', '--variant=minbase', `--include=${packages}`, release, `${base}.new.tar`)
  renameSync(`${base}.new.tar`, base)
}

const root = mkdtempSync(join(tmpdir(), `anchorhold-${release}-`))
process.once('exit', () => rmSync(root, { recursive: true, force: true }))
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))
run('chmod', '755', root)
run('tar', '-C', root, '-xf', base, '--numeric-owner')
const inside = (path: string) => join(root, path)

// The Node of whoever calls npm, and not the one that this release brings: that is for the clone to fetch.
const machine = process.env.npm_node_execpath ?? process.execPath
cpSync(machine, inside('usr/bin/node'))
cpSync(join(dirname(npm), '..'), inside('usr/lib/node_modules/npm'), { recursive: true })
for (const name of ['npm', 'npx']) symlinkSync(`../lib/node_modules/npm/bin/${name}-cli.js`, inside(`usr/bin/${name}`))
// This machine's way to names, certificates and registries.
for (const path of ['/etc/resolv.conf', '/etc/hosts', '/etc/ssl/certs', '/etc/apt/apt.conf.d', '/usr/etc/npmrc'])
  if (existsSync(path)) cpSync(path, inside(path), { recursive: true, dereference: true })

if (user !== 'root') run('chroot', root, 'useradd', '--create-home', '--shell', '/bin/bash', user)
const settings = join(homedir(), '.npmrc')
if (existsSync(settings)) cpSync(settings, inside(join(home, '.npmrc')))
run('git', 'clone', '--quiet', join(import.meta.dirname, '..'), inside(join(home, 'clone')))
if (user !== 'root') run('chroot', root, 'chown', '-R', `${user}:`, home)
mkdirSync(inside('.before'))

// A root of its own, by pivot_root: in a chroot the kernel refuses user namespaces, and so bubblewrap.
const enter = `
  mount --bind "$ROOT" "$ROOT"; cd "$ROOT"
  for each in proc sys dev; do mount --rbind "/$each" "$each"; done
  pivot_root . .before; cd /; umount -l /.before; rmdir /.before
  exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME="$AT" USER="$WHO" LANG=C.UTF-8 CI=true \\
    NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt \\
    setpriv --reuid "$WHO" --regid "$WHO" --init-groups sh -c "cd $AT/clone && $COMMAND"`
const { status } = spawnSync('unshare', ['--mount', '--propagation', 'private', 'sh', '-euc', enter], {
  env: { ...process.env, ROOT: root, AT: home, WHO: user, COMMAND: command },
  stdio: 'inherit',
})
process.exitCode = status ?? 1

function run(program: string, ...args: string[]): void {
  execFileSync(program, args, { stdio: ['ignore', 'inherit', 'inherit'] })
}
