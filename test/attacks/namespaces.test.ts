import { expect, test } from 'vitest'
import { attack, cellUnderAttack, ENOSYS, EPERM, makeCalls, numberOf } from './cell-under-attack.ts'

const namespaces = {
  time: 0x80,
  mount: 0x20000,
  cgroup: 0x2000000,
  uts: 0x4000000,
  ipc: 0x8000000,
  user: 0x10000000,
  pid: 0x20000000,
  net: 0x40000000,
}

attack('new namespaces', (driver) => {
  test('are refused to unshare, of every kind', async () => {
    await using under = await cellUnderAttack(driver)
    const { lines } = await under.perl(
      makeCalls,
      ...Object.entries(namespaces).map(([name, flag]) => `${name},${numberOf.unshare},${flag}`),
    )
    expect(lines).toEqual(Object.keys(namespaces).map((name) => `${name}: refused ${EPERM}`))
  })

  test('are refused to clone, of every kind, whatever the unused half of the flags', async () => {
    await using under = await cellUnderAttack(driver)
    const sigchld = 17
    const { time: _, ...forClone } = namespaces
    const calls = Object.entries(forClone).flatMap(([name, flag]) => [
      `${name},${numberOf.clone},${flag + sigchld},0,0,0,0`,
      `${name} high,${numberOf.clone},${0x7fff_0000_0000 + flag + sigchld},0,0,0,0`,
    ])
    const { lines } = await under.perl(makeCalls, ...calls)
    expect(lines).toEqual(calls.map((call) => `${call.split(',')[0]}: refused ${EPERM}`))
  })

  test('are not to be had by clone3, setns or the unshare command', async () => {
    await using under = await cellUnderAttack(driver)
    const { lines } = await under.perl(makeCalls, `clone3,${numberOf.clone3},0,0`, `setns,${numberOf.setns},0,0`)
    expect(lines).toEqual([`clone3: refused ${ENOSYS}`, `setns: refused ${EPERM}`])
    expect((await under.sh('unshare --user true 2>/dev/null && echo DONE || echo refused')).lines).toEqual(['refused'])
  })
})
