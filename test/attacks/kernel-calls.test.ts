import { expect, test } from 'vitest'
import { attack, cellUnderAttack, EPERM, makeCalls, numberOf } from './cell-under-attack.ts'

/** Arguments that the kernel itself would take or fault on, so that EPERM can only be the filter's answer, where there are such. */
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
} as const satisfies Partial<Record<keyof typeof numberOf, readonly number[]>>

attack('calls that reach deep into the kernel', (driver) => {
  test('are all refused', async () => {
    await using under = await cellUnderAttack(driver)
    const list = Object.entries(calls).map(([name, args]) => [name, numberOf[name as keyof typeof calls], ...args].join(','))
    const { lines } = await under.perl(makeCalls, ...list)
    expect(lines).toEqual(Object.keys(calls).map((name) => `${name}: refused ${EPERM}`))
  })

  test('a process is held by the filter, without privileges and without a way to new ones', async () => {
    await using under = await cellUnderAttack(driver)
    const { lines } = await under.sh(
      `grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status /proc/1/status | cut -d: -f2- | tr -d '\\t' | sort -u`,
    )
    const none = '0'.repeat(16)
    expect(lines).toEqual([
      `CapAmb:${none}`,
      `CapBnd:${none}`,
      `CapEff:${none}`,
      `CapInh:${none}`,
      `CapPrm:${none}`,
      'NoNewPrivs:1',
      'Seccomp:2',
    ])
  })
})
