import { expect, test } from 'vitest'
import { attack, cellUnderAttack } from './cell-under-attack.ts'

attack('leaving through /proc', (driver) => {
  test('/proc/1/root leads to the same root', async () => {
    await using under = await cellUnderAttack(driver)
    const { lines } = await under.sh(`
      for p in /proc/[0-9]*; do
        for way in root cwd; do
          [ -e $p/$way/workspace ] || [ "$(readlink $p/$way)" != / ] || echo "ELSEWHERE $p/$way"
          cat $p/$way/etc/shadow $p/$way/../etc/shadow 2>/dev/null && echo "READ $p/$way"
        done
      done
      ls -d /proc/1/root/home/* /proc/1/root/root 2>/dev/null || true
      echo refused`)
    expect(lines.filter((line) => line !== '/proc/1/root/home/agent')).toEqual(['refused'])
  })

  test("nothing of the host's root is there but /usr and a little of /etc", async () => {
    await using under = await cellUnderAttack(driver)
    const { lines } = await under.sh(
      'ls -A /; ls -A /home /run /var; ls -A /root /srv /mnt /media /boot /sys /opt 2>/dev/null || echo refused',
    )
    const top = [
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
    ]
    const rest = lines.filter((line) => !top.includes(line))
    expect(rest).toEqual(['/home:', 'agent', '/run:', 'windows', '/var:', 'refused'])
  })

  test.each([
    '/etc/shadow',
    '/etc/gitconfig',
    '/etc/npmrc',
    '/etc/pip.conf',
    '/etc/machine-id',
    '/etc/ssl/private',
    '/etc/sudoers',
    '/etc/environment',
  ])('%s is not there', async (path) => {
    await using under = await cellUnderAttack(driver)
    expect((await under.sh(`ls -d ${path} 2>/dev/null || echo refused`)).lines).toEqual(['refused'])
  })

  test('the users of the host are not in /etc/passwd', async () => {
    await using under = await cellUnderAttack(driver)
    expect((await under.sh('cut -d: -f1,3 /etc/passwd /etc/group | sort -u; whoami')).lines).toEqual([
      'agent:1000',
      'nobody:65534',
      'nogroup:65534',
      'root:0',
      'agent',
    ])
  })
})
