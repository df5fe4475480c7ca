import { type Attack, judgeByKernel } from './attack.ts'
import { allRefused, makeCalls, numberOf } from './calls.ts'

const flags = {
  ...{ time: 0x80, mount: 0x20000, cgroup: 0x2000000, uts: 0x4000000, ipc: 0x8000000 },
  ...{ user: 0x10000000, pid: 0x20000000, net: 0x40000000 },
}

export const namespaces: Attack = {
  name: 'make namespaces',
  promise: 'No new namespace can be made or entered: as its root, a process would reach much more of the kernel',
  guard: 'a seccomp filter on unshare, setns, clone and clone3, and no user namespaces',
  async *run(on) {
    const under = await on.cell()
    const unshare = Object.entries(flags).map(([name, flag]) => `${name},${numberOf.unshare},${flag}`)
    const { lines } = await under.perl(makeCalls, ...unshare)
    yield judgeByKernel(on, 'by unshare, of every kind', lines, allRefused(unshare))

    const sigchld = 17
    const { time: _, ...forClone } = flags
    const clone = Object.entries(forClone).flatMap(([name, flag]) => [
      `${name},${numberOf.clone},${flag + sigchld},0,0,0,0`,
      `${name} high,${numberOf.clone},${0x7fff_0000_0000 + flag + sigchld},0,0,0,0`,
    ])
    const { lines: cloned } = await under.perl(makeCalls, ...clone)
    yield judgeByKernel(on, 'by clone, of every kind, whatever the unused half of the flags', cloned, allRefused(clone))

    const others = [`clone3,${numberOf.clone3},0,0`, `setns,${numberOf.setns},0,0`]
    const { lines: other } = await under.perl(makeCalls, ...others)
    yield judgeByKernel(on, 'by clone3 and setns', other, allRefused(others))
    const { lines: command } = await under.sh(
      'for how in --user --mount --pid --net "--user --map-root-user --mount"; do unshare $how true 2>/dev/null && echo DONE || echo refused; done',
    )
    yield judgeByKernel(on, 'by the command', command, Array<string>(5).fill('refused'))
  },
}
