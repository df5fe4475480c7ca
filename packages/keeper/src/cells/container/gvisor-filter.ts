import {
  allowedFamilies,
  allowedPersonalities,
  newNamespaceFlags,
  refused,
  refusedIoctls,
  type SeccompArch,
  unanswered,
} from '../seccomp.ts'
import { architectures, type Argument, bitsOf, masked } from './seccomp-profile.ts'

/** The filter of `seccomp.ts` for gVisor, which holds its processes by it as a kernel would. Of the rules about a call it takes the
 *  first that fits, and a call that no rule is about is its own to answer: it has none that are younger than itself. It takes its time
 *  over each rule before a cell can start, so they are few.
 *  It knows only EPERM for a refusal; ENOSYS is what it answers when a tracer is to be asked and there is none. */
export function gvisorFilter(arch: SeccompArch) {
  const rule = (action: keyof typeof actions, names: readonly string[], args: readonly Argument[] = []) => ({
    ...{ names, action: actions[action], args },
  })
  const sockets = ['socket', 'socketpair']
  const whole = 0xffffffff
  return {
    defaultAction: actions.allow,
    architectures: [architectures[arch]],
    syscalls: [
      rule('refuse', refused),
      rule('ignore', ['clone3', ...unanswered]),
      ...bitsOf(newNamespaceFlags).map((bit) => rule('refuse', ['clone'], [masked(0, bit, bit)])),
      ...refusedIoctls.map((command) => rule('refuse', ['ioctl'], [masked(1, whole, command)])),
      ...allowedFamilies.map((family) => rule('allow', sockets, [masked(0, whole, family)])),
      rule('refuse', sockets),
      ...allowedPersonalities.map((persona) => rule('allow', ['personality'], [masked(0, whole, persona)])),
      rule('refuse', ['personality']),
    ],
  }
}

const actions = { allow: 'SCMP_ACT_ALLOW', refuse: 'SCMP_ACT_ERRNO', ignore: 'SCMP_ACT_TRACE' } as const
