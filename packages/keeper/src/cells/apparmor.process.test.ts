import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { allowedCopy, lacksProfile } from './apparmor.ts'

const restricted = (path: string) => (path === '/proc/sys/kernel/apparmor_restrict_unprivileged_userns' ? '1' : null)

test.each([
  ['/usr/bin/bwrap', 'bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted'],
  ['/usr/bin/unshare', 'unshare: mount /proc failed: Permission denied'],
])('lacksProfile() of %s gives a copy of it a profile of its own, and leaves the program itself alone', (program, said) => {
  const { remedy = '' } = lacksProfile(said, program, restricted) ?? {}
  expect(remedy).toContain(`sudo install -D -t /usr/local/lib/anchorhold ${program} && `)
  const folder = mkdtempSync(join(tmpdir(), 'anchorhold-test-'))
  // What its second step writes, without the rights to write it there.
  const [, written = ''] = /(printf '[^']*') \| sudo tee/.exec(remedy) ?? []
  execFileSync('sh', ['-c', `${written} > ${join(folder, 'profile')}`])
  const profile = readFileSync(join(folder, 'profile'), 'utf8')
  expect(profile).toMatch(/^profile anchorhold \/usr\/local\/lib\/anchorhold\/\* flags=\(unconfined\) \{\n {2}userns,\n\}\n$/m)
  expect(profile).not.toContain('/usr/bin')
  rmSync(folder, { recursive: true })
})

test('lacksProfile() says nothing where AppArmor allows it, or where something else is the matter', () => {
  expect(lacksProfile('Permission denied', '/usr/bin/bwrap', () => '0')).toBeNull()
  expect(lacksProfile('No such file', '/usr/bin/bwrap', restricted)).toBeNull()
})

test('allowedCopy() is the program itself where there is no copy', () => {
  expect(allowedCopy('/usr/bin/no-such-program')).toBe('/usr/bin/no-such-program')
})
