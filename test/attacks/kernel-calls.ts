import { readFileSync } from 'node:fs'
import { release } from 'node:os'
import { type Attack, judge, judgeByKernel } from './attack.ts'
import { allRefused, type CallName, makeCalls, numberOf } from './calls.ts'

/** Arguments that the kernel itself would take or fault on, so that a refusal can only be the filter's answer, where there are
 *  such. */
const calls = {
  ptrace: [0, 0, 0, 0],
  process_vm_readv: [0, 0, 0, 0, 0, 0],
  process_vm_writev: [0, 0, 0, 0, 0, 0],
  pidfd_getfd: [0, 0, 0],
  keyctl: [0, -3, 0],
  add_key: [0, 0, 0, 0, -3],
  request_key: [0, 0, 0, -3],
  bpf: [0, 0, 0],
  perf_event_open: [0, 0, -1, -1, 0],
  userfaultfd: [1],
  io_uring_setup: [1, 0],
  io_uring_enter: [0, 0, 0, 0, 0],
  io_uring_register: [0, 0, 0, 0],
  open_by_handle_at: [0, 0, 0],
  name_to_handle_at: [0, 0, 0, 0, 0],
  fanotify_init: [0, 0],
  kexec_load: [0, 0, 0, 0],
  init_module: [0, 0, 0],
  finit_module: [0, 0, 0],
  syslog: [10, 0, 0],
  acct: [0],
  quotactl: [0, 0, 0, 0],
  swapon: [0, 0],
  reboot: [0, 0, 0, 0],
  settimeofday: [0, 0],
  sethostname: [0, 0],
} as const satisfies Partial<Record<CallName, readonly number[]>>

export const kernelCalls: Attack = {
  name: 'call deep into the kernel',
  promise:
    'Calls that only an administrator, a debugger or another sandbox needs are refused before the host’s kernel looks at them',
  guard: 'a seccomp filter, no capability and no new privileges, or a kernel of the cell’s own',
  async *run(on) {
    const under = await on.cell()
    if (on.kernel === 'own') {
      const { lines } = await under.sh('uname -r; cat /proc/sys/kernel/random/boot_id 2>/dev/null')
      const hosts = [release(), readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()]
      yield judge(
        'the kernel that answers is not the host’s',
        { answered: lines.length > 0, hosts: lines.filter((line) => hosts.includes(line)) },
        { answered: true, hosts: [] },
      )
    }
    const list = Object.entries(calls).map(([name, args]) => [name, numberOf[name as CallName], ...args].join(','))
    const { lines } = await under.perl(makeCalls, ...list)
    yield judgeByKernel(on, 'every one is refused', lines, allRefused(list))

    const { lines: posture } = await under.sh(
      `grep -hE '^(CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t' | sort -u`,
    )
    const none = '0'.repeat(16)
    // gVisor does not tell of the other two.
    const told = on.rung === 'gvisor' ? [] : [`CapAmb:${none}`, 'NoNewPrivs:1']
    const wanted = [`CapBnd:${none}`, `CapEff:${none}`, `CapPrm:${none}`, 'Seccomp:2', ...told].toSorted()
    yield judgeByKernel(on, 'a process is held by the filter, and has no privilege nor a way to one', posture, wanted)
  },
}
