import { type Attack, judge, judgeByKernel } from './attack.ts'
import { allRefused, makeCalls, numberOf } from './calls.ts'

const families = {
  ...{ unspec: 0, ax25: 3, ipx: 4, netlink: 16, packet: 17, rds: 21, can: 29, tipc: 30, bluetooth: 31, alg: 38, nfc: 39 },
  ...{ vsock: 40, kcm: 41, qipcrtr: 42, smc: 43, xdp: 44, mctp: 45 },
}

export const socketFamilies: Attack = {
  name: 'open unusual sockets',
  promise: 'Socket families and protocols that a cell has no use for, and raw sockets, cannot be opened',
  guard: 'a seccomp filter that knows three families, and what they are used for',
  async *run(on) {
    const under = await on.cell()
    const calls = Object.entries(families).flatMap(([name, family]) => [
      `${name},${numberOf.socket},${family},1,0`,
      `${name} raw,${numberOf.socket},${family},3,0`,
    ])
    calls.push(`socketpair,${numberOf.socketpair},16,1,0,0`)
    const { lines } = await under.perl(makeCalls, ...calls)
    yield judgeByKernel(on, 'every other family is refused', lines, allRefused(calls))

    const protocols = {
      mptcp: [1, 262],
      udplite: [2, 136],
      sctp: [1, 132],
      'packets of sctp': [5, 0],
      dccp: [6, 33],
      l2tp: [2, 115],
    }
    const others = Object.entries(protocols).flatMap(([name, [type, protocol]]) =>
      [2, 10].map((family) => `${name} ${family},${numberOf.socket},${family},${type},${protocol}`),
    )
    const { lines: opened } = await under.perl(makeCalls, ...others)
    yield judgeByKernel(on, 'every protocol that nobody needs is refused', opened, allRefused(others))

    const { lines: raw } = await under.perl(
      makeCalls,
      `raw 4,${numberOf.socket},2,3,255`,
      `raw 6,${numberOf.socket},10,3,255`,
      `stream,${numberOf.socket},2,1,0`,
    )
    yield judge('raw sockets are refused in those that it has', raw, ['raw 4: refused', 'raw 6: refused', 'stream: done'])
  },
}
