import { expect, test } from 'vitest'
import { attack, cellUnderAttack, EAFNOSUPPORT, makeCalls, numberOf } from './cell-under-attack.ts'

const families = {
  unspec: 0,
  ax25: 3,
  ipx: 4,
  netlink: 16,
  packet: 17,
  rds: 21,
  can: 29,
  tipc: 30,
  bluetooth: 31,
  alg: 38,
  nfc: 39,
  vsock: 40,
  kcm: 41,
  qipcrtr: 42,
  smc: 43,
  xdp: 44,
  mctp: 45,
}

attack('socket families that a cell has no use for', (driver) => {
  test('are all refused', async () => {
    await using under = await cellUnderAttack(driver)
    const calls = Object.entries(families).flatMap(([name, family]) => [
      `${name},${numberOf.socket},${family},1,0`,
      `${name} raw,${numberOf.socket},${family},3,0`,
    ])
    const { lines } = await under.perl(makeCalls, ...calls, `socketpair,${numberOf.socketpair},16,1,0,0`)
    expect(lines).toEqual([...calls, 'socketpair'].map((call) => `${call.split(',')[0]}: refused ${EAFNOSUPPORT}`))
  })

  test('raw sockets are refused in those that it has', async () => {
    await using under = await cellUnderAttack(driver)
    const { lines } = await under.perl(
      makeCalls,
      `raw 4,${numberOf.socket},2,3,255`,
      `raw 6,${numberOf.socket},10,3,255`,
      `stream,${numberOf.socket},2,1,0`,
    )
    expect(lines).toEqual(['raw 4: refused 1', 'raw 6: refused 1', 'stream: done'])
  })
})
