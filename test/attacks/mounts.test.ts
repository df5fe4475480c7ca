import { expect, test } from 'vitest'
import { attack, cellUnderAttack, ENOSYS, EPERM, makeCalls, numberOf } from './cell-under-attack.ts'

attack('mounting', (driver) => {
  test.each([
    'mount',
    'umount2',
    'pivot_root',
    'chroot',
    'fsopen',
    'fsconfig',
    'fsmount',
    'fspick',
    'open_tree',
    'move_mount',
    'mount_setattr',
  ] as const)('%s is refused', async (name) => {
    await using under = await cellUnderAttack(driver)
    expect((await under.perl(makeCalls, `${name},${numberOf[name]},0,0,0,0,0`)).lines).toEqual([`${name}: refused ${EPERM}`])
  })

  test('a call that is younger than the filter is not there', async () => {
    await using under = await cellUnderAttack(driver)
    expect((await under.perl(makeCalls, `open_tree_attr,${numberOf.open_tree_attr},0,0,0,0,0`)).lines).toEqual([
      `open_tree_attr: refused ${ENOSYS}`,
    ])
  })

  test('the commands are refused', async () => {
    await using under = await cellUnderAttack(driver)
    const { lines } = await under.sh(`
      mount -t tmpfs none /tmp 2>/dev/null && echo DONE || echo refused
      mount --bind / /tmp 2>/dev/null && echo DONE || echo refused
      umount /proc/sys 2>/dev/null && echo DONE || echo refused
      umount -l /usr 2>/dev/null && echo DONE || echo refused
      /usr/sbin/chroot / true 2>/dev/null && echo DONE || echo refused`)
    expect(lines).toEqual(Array(5).fill('refused'))
  })
})
