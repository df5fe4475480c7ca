import { ownerMark } from '@anchorhold/link/owner'
import { createHash, randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Attack, judge, judgeByKernel, notApplicable } from './attack.ts'

export const hostSecrets: Attack = {
  name: 'read host secrets',
  promise: 'Keys, passwords and settings of the host, its root folder and the homes of its users are not there',
  guard: 'a root that is put together from what tools need, instead of the host’s with parts of it hidden',
  async *run(on) {
    const under = await on.cell()
    const secret = `canary-${randomUUID()}`
    // Left open to everybody: nothing but the wall stands before it.
    const folder = await mkdtemp(join(tmpdir(), `ah-attack-${ownerMark()}-`))
    try {
      await chmod(folder, 0o755)
      await writeFile(join(folder, 'id_ed25519'), secret, { mode: 0o644 })
      const { lines } = await under.sh(
        `echo looked; cat '${folder}/id_ed25519' 2>/dev/null; find / -name id_ed25519 -not -path '/proc/*' 2>/dev/null | head`,
      )
      yield judge('a key that anybody on the host can read', lines, ['looked'])
    } finally {
      await rm(folder, { recursive: true })
    }

    const homes = [...new Set([homedir(), '/root'])]
    const hidden = [
      ...homes.flatMap((home) =>
        ['.ssh', '.gnupg', '.aws', '.netrc', '.gitconfig', '.claude', '.npmrc'].map((name) => join(home, name)),
      ),
      ...['/etc/shadow', '/etc/gshadow', '/etc/gitconfig', '/etc/npmrc', '/etc/pip.conf', '/etc/machine-id', '/etc/ssl/private'],
      ...[
        '/etc/sudoers',
        '/etc/environment',
        '/etc/ssh',
        '/etc/NetworkManager',
        '/etc/kubernetes',
        '/etc/docker',
        '/etc/wireguard',
      ],
      ...[
        '/var/run/docker.sock',
        '/run/docker.sock',
        '/run/podman',
        '/run/user',
        '/run/systemd',
        '/run/dbus',
        '/var/lib',
        '/var/log',
      ],
    ]
    if (on.root === 'image') {
      // An image has such files of its own. What counts is that none of them is the host's.
      const { lines: sums } = await under.sh(
        `for path in ${hidden.map((path) => `'${path}'`).join(' ')}; do [ -s "$path" ] && sha256sum "$path" 2>/dev/null | cut -c1-64; done; echo refused`,
      )
      const hosts = hidden.flatMap(sumOf)
      const common = sums.filter((sum) => sum === 'refused' || hosts.includes(sum))
      yield judge('keys and settings at their usual places are not the host’s', common, ['refused'])
      yield notApplicable('nothing of the host’s root is there', 'the root is an image that was built from packages')
      return
    }

    const { lines: reached } = await under.sh(
      // A folder that is there and empty tells nothing: a mount point, or the part of an image that every image has.
      `for path in ${hidden.map((path) => `'${path}'`).join(' ')}; do
        if [ -d "$path" ] && [ -z "$(ls -A "$path" 2>/dev/null)" ]; then continue; fi
        cat "$path" >/dev/null 2>&1 && echo "READ $path"; ls -A "$path/" >/dev/null 2>&1 && echo "LISTED $path"
      done; echo refused`,
    )
    yield judgeByKernel(on, 'keys and settings at their usual places', reached, ['refused'])

    const { lines: top } = await under.sh(
      // Not ls: it asks more of a kernel than some of those that cells have for themselves can answer.
      "find / /home /run /var /root /srv /mnt /media /boot /opt -mindepth 1 -maxdepth 1 -printf '%f\\n' 2>/dev/null; echo refused",
    )
    const usual = [
      ...[
        'bin',
        'dev',
        'etc',
        'home',
        'lib',
        'lib32',
        'lib64',
        'libx32',
        'proc',
        'run',
        'sbin',
        'tmp',
        'usr',
        'var',
        'workspace',
      ],
      ...['/home:', 'agent', '/run:', 'windows', '/var:'],
      // What the program inside a container or a machine brings along.
      ...[
        '.containerenv',
        '.dockerenv',
        'cell',
        'opt',
        'anchorhold',
        '/opt:',
        '/root:',
        '/srv:',
        '/mnt:',
        '/media:',
        '/boot:',
        'boot',
        'media',
        'mnt',
        'root',
        'srv',
        'sys',
      ],
    ]
    yield judgeByKernel(
      on,
      'nothing of the host’s root but its programs and a little of /etc',
      top.filter((name) => !usual.includes(name)),
      ['refused'],
    )

    const { lines: users } = await under.sh('cut -d: -f1 /etc/passwd /etc/group | sort -u; whoami')
    const made = ['agent', 'nobody', 'nogroup', 'root']
    yield judgeByKernel(on, 'the users of the host are not in /etc/passwd', users.slice(0, -1), made)
  },
}

function sumOf(path: string): string[] {
  try {
    return [createHash('sha256').update(readFileSync(path)).digest('hex')]
  } catch {
    return [] // not there, no file, or not ours to read
  }
}
