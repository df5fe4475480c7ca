import { expect, test } from 'vitest'
import { attack, cellUnderAttack, numberOf } from './cell-under-attack.ts'

attack('devices', (driver) => {
  test('there are none but the harmless ones', async () => {
    await using under = await cellUnderAttack(driver)
    // Asked of each by itself: a node that is bound over a file is listed as the file.
    const { lines } = await under.sh(`
      find /usr \\( -type b -o -type c \\) 2>/dev/null
      find / -path /proc -prune -o -path /usr -prune -o ! -type l -print | while read -r path; do [ ! -b "$path" ] && [ ! -c "$path" ] || echo "$path"; done`)
    expect(lines.toSorted()).toEqual([
      '/dev/full',
      '/dev/null',
      '/dev/pts/ptmx',
      '/dev/random',
      '/dev/tty',
      '/dev/urandom',
      '/dev/zero',
    ])
  })

  test('cannot be made', async () => {
    await using under = await cellUnderAttack(driver)
    const make = `for (["/workspace/vda", 0060666, 65024], ["/tmp/mem", 0020666, 257], ["/dev/shm/kvm", 0020666, 2792]) { my ($path, $mode, $device) = @$_; print syscall(${numberOf.mknodat}, -100, $path, $mode, $device) == -1 ? "refused\\n" : "MADE\\n" }`
    expect((await under.perl(make)).lines).toEqual(['refused', 'refused', 'refused'])
  })
})
