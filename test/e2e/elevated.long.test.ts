// A cell with root inside, or with an engine of its own, is had by an ordinary user who has a range of users. By `npm run test:machines`,
// which has images: it needs one with sudo and Podman in it.
import { buildImage } from '@anchorhold/keeper/images/build'
import type { Event } from '@anchorhold/protocol/events'
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { giveTo } from './host.ts'
import { command, isRoot, makeBase, outputsOf, type Ran, root, start } from './installation.ts'

const images = process.env.ANCHORHOLD_IMAGES
/** Root becomes somebody with a name, whose range is in files that nobody else sees. */
const person = { uid: 65_534, gid: 65_534, name: 'nobody' }
const range = { first: 1_700_000_000, count: 65_536 }
const buildMs = 30 * 60_000

const base = makeBase()
const state = join(base, 's')
const asPerson = [
  ...['/usr/bin/unshare', '--mount', '--', 'sh', '-c', 'mount --bind "$0" /etc/subuid; mount --bind "$0" /etc/subgid; exec "$@"'],
  ...[join(base, 'range'), '/usr/bin/setpriv', `--reuid=${person.uid}`, `--regid=${person.gid}`, '--clear-groups', '--'],
]
const cli = (...args: readonly string[]): Promise<Ran> => {
  const [file = '', ...rest] = [...asPerson, process.execPath, command, '--state', state, ...args]
  return start(file, rest, '', { HOME: base }).ended
}
const lacks =
  images === undefined
    ? 'npm run test:machines runs it'
    : !isRoot
      ? 'only root can become somebody with a range'
      : isHidden()
        ? 'the clone is hidden from others'
        : null

function isHidden(): boolean {
  try {
    execFileSync('test', ['-r', command], person)
    return false
  } catch {
    return true
  }
}

beforeAll(async () => {
  if (lacks !== null) return
  await buildImage({ images: images!, recipes: join(root, 'packaging/images'), variant: 'dev', say: console.log })
  mkdirSync(state)
  symlinkSync(images!, join(state, 'images'))
  writeFileSync(join(base, 'range'), `${person.name}:${range.first}:${range.count}\n`)
  giveTo(base, person)
  expect(await cli('up', '--detach', '--port', '0')).toMatchObject({ code: 0 })
}, buildMs)
afterAll(async () => {
  if (lacks === null) await cli('down', '--all')
  rmSync(base, { recursive: true, force: true })
})

/** What a command says in a cell with these extras. */
async function said(lines: string, ...extras: readonly string[]): Promise<{ readonly said: string; readonly workspace: string }> {
  const workspace = join(base, `w${Math.random().toString(36).slice(2)}`)
  mkdirSync(workspace)
  giveTo(workspace, person)
  writeFileSync(join(workspace, 'try.sh'), lines, { mode: 0o644 })
  const run = ['run', '--json', '--rung', 'container', '--image', 'dev', '--workspace', workspace, ...extras]
  const { code, out, err } = await cli(...run, 'run `sh try.sh 2>&1`')
  expect({ code, err }).toMatchObject({ code: 0 })
  const events = out.split('\n').flatMap((line) => (line.startsWith('{') ? [JSON.parse(line) as Event] : []))
  return { said: outputsOf(events), workspace }
}

test('with --sudo root inside is somebody of your range outside, and root of nothing else', async ({ skip }) => {
  if (lacks !== null) skip(lacks)
  const { said: words, workspace } = await said(
    [
      'echo "I am $(id -u)"; echo "root is $(sudo -n id -u)"; grep CapEff /proc/self/status',
      'sudo -n sh -c "echo made > by-root"',
      'sudo -n sh -c "echo x > /etc/owned" || echo "etc refused"',
      'sudo -n mount -t tmpfs x /mnt || echo "mount refused"',
    ].join('\n'),
    '--sudo',
  )
  expect(words).toContain('I am 1000\nroot is 0\nCapEff:\t0000000000000000')
  expect(words).toContain('etc refused')
  expect(words).toContain('mount refused')
  const { uid } = statSync(join(workspace, 'by-root'))
  expect(uid).toBeGreaterThanOrEqual(range.first)
  expect(uid).toBeLessThan(range.first + range.count)
  expect(readFileSync(join(workspace, 'by-root'), 'utf8')).toBe('made\n')
})

test('with --nested an engine inside makes containers of its own, with users of their own', async ({ skip }) => {
  if (lacks !== null) skip(lacks)
  const { said: words } = await said(
    [
      'mkdir -p root/bin && cp /bin/busybox root/bin/ && mkdir root/lib root/proc root/dev root/sys root/etc root/run root/tmp',
      'for lib in $(ldd /bin/busybox | grep -o "/[^ ]*"); do mkdir -p "root$(dirname $lib)"; cp -L "$lib" "root$lib"; done',
      'tar -C root -cf - . | podman import -q - nested/busybox',
      'podman run --rm nested/busybox /bin/busybox sh -c \'echo "inside: $(/bin/busybox id -u)"; /bin/busybox cat /proc/self/uid_map\'',
      'sudo -n id -u || echo "sudo refused"',
    ].join('\n'),
    '--nested',
  )
  expect(words).toMatch(/^inside: 0$/m)
  expect(words).toContain('sudo refused')
})

test('without either, nobody inside becomes root, of a container or of a namespace', async ({ skip }) => {
  if (lacks !== null) skip(lacks)
  const { said: words } = await said('sudo -n id -u || echo "sudo refused"; podman unshare id -u || echo "namespaces refused"')
  expect(words).toContain('sudo refused')
  expect(words).toContain('namespaces refused')
})
