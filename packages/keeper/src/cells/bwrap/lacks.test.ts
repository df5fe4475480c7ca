import { expect, test } from 'vitest'
import { explain, lacksBwrap } from './lacks.ts'

const files = (contents: Readonly<Record<string, string>>) => (path: string) => contents[path] ?? null

test.each([
  ['ID=debian\n', 'sudo apt-get install -y bubblewrap'],
  ['NAME="Linux Mint"\nID=linuxmint\nID_LIKE="ubuntu debian"\n', 'sudo apt-get install -y bubblewrap'],
  ['ID=fedora\n', 'sudo dnf install -y bubblewrap'],
  ['ID="rocky"\nID_LIKE="rhel centos fedora"\n', 'sudo dnf install -y bubblewrap'],
  ['ID=arch\n', 'sudo pacman -S --noconfirm bubblewrap'],
  ['ID=alpine\n', 'sudo apk add bubblewrap'],
  ['ID="opensuse-leap"\nID_LIKE="suse opensuse"\n', 'sudo zypper --non-interactive install bubblewrap'],
  ['', 'Install the package "bubblewrap" (0.8.0 or newer) with your package manager'],
])('lacksBwrap() on %j says %s', (release, remedy) => {
  expect(lacksBwrap(files({ '/etc/os-release': release })).remedy).toBe(remedy)
})

const said = 'bwrap: setting up uid map: Permission denied'

test.each([
  ['/proc/sys/user/max_user_namespaces', '0', 'user.max_user_namespaces=15000'],
  ['/proc/sys/kernel/unprivileged_userns_clone', '0', 'kernel.unprivileged_userns_clone=1'],
  [
    '/proc/sys/kernel/apparmor_restrict_unprivileged_userns',
    '1',
    'sudo install -D -t /usr/local/lib/anchorhold /usr/bin/bwrap && ',
  ],
])('explain() finds the cause in %s', (path, value, remedy) => {
  const [lack] = explain(said, '/usr/bin/bwrap', files({ [path]: value }))
  expect(lack?.remedy).toContain(remedy)
})

test('explain() knows a bubblewrap that is too old', () => {
  expect(explain('bwrap: Unknown option --disable-userns', '/usr/bin/bwrap', files({}))).toEqual([
    {
      what: 'bubblewrap is too old: it does not know --disable-userns',
      remedy: expect.stringContaining('Install bubblewrap 0.10.0 or newer') as string,
    },
  ])
})
