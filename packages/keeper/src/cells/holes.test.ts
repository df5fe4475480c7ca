import { expect, test } from 'vitest'
import { holesIn, type Installed, type ProgramName } from './holes.ts'

const debianRunc = 'runc version 1.1.5+ds1\ncommit: 1.1.5+ds1-1+deb12u1\nspec: 1.0.2-dev\n'
const program = (name: ProgramName, said: string, change: Partial<Installed> = {}): Installed => ({
  ...{ name, said, path: `/usr/bin/${name}`, isSetuid: false, changelog: null, runs: 'rootless' },
  ...change,
})
const idsIn = (one: Installed) => holesIn([one]).flatMap(({ ids }) => ids)
const newRunc = ['CVE-2025-31133', 'CVE-2025-52565', 'CVE-2025-52881']
const podman620 = ['CVE-2026-123876', 'CVE-2026-111361', 'CVE-2026-121885']

test.each([
  ['bwrap', 'bubblewrap 0.8.0', ['CVE-2026-41163']],
  ['bwrap', 'bubblewrap 0.11.1', ['CVE-2026-41163']],
  ['bwrap', 'bubblewrap 0.11.2', []],
  ['bwrap', 'bubblewrap 0.12.0', []],
  ['podman', 'podman version 4.3.1', ['CVE-2026-94603']],
  ['podman', 'podman version 6.1.2', ['CVE-2026-94603']],
  ['podman', 'podman version 6.1.3', []],
  ['podman', 'podman version 6.2.0', podman620],
  ['podman', 'podman version 6.2.1', []],
  ['podman', 'podman version 10.0.0', []],
  ['runc', 'runc version 1.1.5', ['CVE-2024-21626', ...newRunc]],
  ['runc', 'runc version 1.1.11', ['CVE-2024-21626', ...newRunc]],
  ['runc', 'runc version 1.1.12', newRunc],
  ['runc', 'runc version 1.2.7', newRunc],
  ['runc', 'runc version 1.2.8', []],
  ['runc', 'runc version 1.3.2', newRunc],
  ['runc', 'runc version 1.3.3', []],
  ['runc', 'runc version 1.4.0-rc.2', newRunc],
  ['runc', 'runc version 1.4.0-rc.3', []],
  ['runc', 'runc version 1.4.0', []],
  ['runc', debianRunc, newRunc],
  ['runsc', 'runsc version 0.0~20221219.0\nspec: 1.0.2-dev\n', ['CVE-2026-96812']],
  ['runsc', 'runsc version release-20260914.0', ['CVE-2026-96812']],
  ['runsc', 'runsc version release-20261005.0', []],
  ['crun', 'crun version 1.8.1', []],
] as const)('holesIn() of %s that says %j', (name, said, ids) => {
  expect(idsIn(program(name, said))).toEqual(ids)
})

test('holesIn() believes the changelog of a distribution that names a hole, of that hole alone', () => {
  const changelog = '  * CVE-2024-21626: several container breakouts due to internally leaked fds\n'
  expect(idsIn(program('runc', 'runc version 1.1.5+ds1', { changelog }))).toEqual(newRunc)
  const [rest] = holesIn([program('runc', 'runc version 1.1.5+ds1', { changelog })])
  expect(rest!.what).toContain('unless your distribution has brought the fix: its changelog does not name CVE-2025-31133')
})

test('holesIn() finds nothing on Debian 12 that cells meet', () => {
  const programs = [
    program('bwrap', 'bubblewrap 0.8.0'),
    program('podman', 'podman version 4.3.1'),
    program('runc', debianRunc),
    program('runsc', 'runsc version 0.0~20221219.0'),
    null,
  ]
  const found = holesIn(programs)
  expect(found.map(({ touched }) => touched)).toEqual(['no', 'no', 'no', 'no'])
  for (const { what, remedy } of found) {
    expect(what).toContain('unless your distribution has brought the fix: see what its changelog says of CVE-')
    expect(remedy).toMatch(/^Install .*, or the security update of your distribution$/)
  }
})

test.each([
  [
    'a bwrap that is set-user-id',
    program('bwrap', 'bubblewrap 0.11.1', { isSetuid: true }),
    'yes',
    'sudo chmod u-s /usr/bin/bwrap',
  ],
  ['an old runc', program('runc', 'runc version 1.1.11'), 'perhaps', "the session's own user"],
  ['an old runc of an engine of root', program('runc', '1.1.11', { runs: 'as root' }), 'perhaps', 'root, or near it'],
  ['a runc that does not say its version', program('runc', 'unknown'), 'perhaps', 'not all of them can be ruled out'],
  ['a runsc that does not say its version', program('runsc', 'runsc version VERSION_MISSING'), 'no', 'none of those is met'],
  ['Podman of root', program('podman', '4.3.1', { runs: 'as root' }), 'no', 'were made by Anchorhold'],
] as const)('holesIn() says of %s whether cells meet its hole', (_, one, touched, why) => {
  const [hole] = holesIn([one])
  expect(hole).toMatchObject({ touched, why: expect.stringContaining(why) as string })
})

test('holesIn() reads a version of any length in time', () => {
  expect(idsIn(program('podman', '9'.repeat(64 * 1024)))).toEqual(['CVE-2026-94603', ...podman620])
  expect(idsIn(program('runsc', `${'20'.repeat(32 * 1024)}.`))).toEqual(['CVE-2026-96812'])
})
