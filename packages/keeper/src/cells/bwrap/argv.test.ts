import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { trialLimits } from '../trial.ts'
import type { CellSpec } from '../cell.ts'
import { noExtras } from '@anchorhold/protocol/sessions'
import { readHostRoot } from '../host-root.ts'
import { isPlaceForMount } from '../layout.ts'
import { bwrapArgv } from './argv.ts'

const host = {
  trees: ['/usr'],
  files: [],
  links: [{ path: '/bin', target: 'usr/bin' }],
  procReadOnly: ['/proc/sys'],
  procHiddenFiles: ['/proc/kcore'],
  procHiddenFolders: [],
}
const spec: CellSpec = {
  ...{
    name: 's',
    workspace: '/w',
    home: '/h',
    windows: '/v',
    mounts: [],
    network: 'none',
    covers: [],
    root: null,
    scratch: '/c',
  },
  ...{ limits: trialLimits, extras: noExtras, cgroups: [], runAs: null },
}
const fds = { workspace: 3, home: 4, caches: undefined, seccomp: 5, files: { '/etc/passwd': 6 }, status: 7 }
const argv = bwrapArgv(spec, { env: { A: '1' }, cwd: '/workspace' }, host, fds, 'pipes')

test.each([
  ...['--unshare-user', '--unshare-pid', '--unshare-ipc', '--unshare-uts', '--unshare-cgroup', '--unshare-net'],
  ...['--disable-userns', '--new-session', '--die-with-parent', '--clearenv'],
])('bwrapArgv() has %s', (option) => {
  expect(argv).toContain(option)
})

test('bwrapArgv() clears the environment before it sets any, and closes the root after the last mount', () => {
  expect(argv.indexOf('--clearenv')).toBeLessThan(argv.indexOf('--setenv'))
  const closing = argv.findIndex((word, index) => word === '--remount-ro' && argv[index + 1] === '/')
  const lastMount = argv.findLastIndex((word) =>
    ['--bind', '--bind-fd', '--ro-bind', '--tmpfs', '--file', '--proc', '--dev'].includes(word),
  )
  expect(closing).toBeGreaterThan(lastMount)
})

test('bwrapArgv() binds nothing writable but workspace and home', () => {
  const writable = argv.flatMap((word, index) => (/^--bind(-fd)?$/.test(word) ? [argv.slice(index, index + 3)] : []))
  // By descriptors: what was looked at is what is mounted.
  expect(writable).toEqual([
    ['--bind-fd', '4', '/home/agent'],
    ['--bind-fd', '3', '/workspace'],
  ])
  expect(argv).not.toContain('--dev-bind')
})

test('bwrapArgv() shows a device only where one is asked for, and closes /dev after it', () => {
  const devices = [{ source: '/dev/kvm', target: '/dev/kvm' }]
  const asked = bwrapArgv({ ...spec, devices }, { env: {}, cwd: '/' }, host, fds, 'pipes')
  const at = asked.indexOf('--dev-bind')
  expect(asked.slice(at, at + 5)).toEqual(['--dev-bind', '/dev/kvm', '/dev/kvm', '--remount-ro', '/dev'])
})

test.each([
  ['/a', '/opt/agent', true],
  ['/home/ada/.nvm', '/home/ada/.nvm', true],
  ['/nix/store', '/nix/store', true],
  ['/a', '/run/tool', true],
  ['/a', '/run/windows', false],
  ['/a', '/run/windows/x', false],
  ['/a', '/elsewhere', false],
  ['/', '/', false],
  ['/etc', '/etc', false],
  ['/usr/lib', '/usr/lib', false],
  ['/home', '/home', false],
  ['/home/agent/x', '/home/agent/x', false],
  ['/proc', '/proc', false],
  ['/a', '/opt/../etc', false],
  ['/a', 'opt', false],
])('isPlaceForMount() of %s at %s is %s', (source, target, expected) => {
  expect(isPlaceForMount({ source, target })).toBe(expected)
})

test('readHostRoot() takes bin as the host has it, and of /etc only what is harmless', () => {
  const root = mkdtempSync(join(tmpdir(), 'anchorhold-test-'))
  mkdirSync(join(root, 'usr/bin'), { recursive: true })
  mkdirSync(join(root, 'sbin'))
  symlinkSync('usr/bin', join(root, 'bin'))
  mkdirSync(join(root, 'etc/ssl/certs'), { recursive: true })
  mkdirSync(join(root, 'etc/ssl/private'))
  mkdirSync(join(root, 'etc/java-17-openjdk'))
  for (const name of ['ld.so.cache', 'shadow', 'passwd', 'gitconfig', 'npmrc', 'environment'])
    writeFileSync(join(root, 'etc', name), '')
  expect(readHostRoot(root)).toEqual({
    trees: ['/usr', '/sbin', '/etc/ssl/certs', '/etc/java-17-openjdk'],
    files: ['/etc/ld.so.cache'],
    links: [{ path: '/bin', target: 'usr/bin' }],
    procReadOnly: [],
    procHiddenFiles: [],
    procHiddenFolders: [],
  })
  rmSync(root, { recursive: true })
})

test('bwrapArgv() leaves a lent terminal its session, and nothing else', () => {
  const lent = bwrapArgv(spec, { env: { A: '1' }, cwd: '/workspace' }, host, fds, 'terminal')
  expect(lent).toEqual(argv.filter((option) => option !== '--new-session'))
})
