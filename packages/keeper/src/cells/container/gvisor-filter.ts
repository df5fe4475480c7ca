import {
  allowedPersonalities,
  allowedSockets,
  makingFlags,
  modeCalls,
  newNamespaceFlags,
  openCalls,
  refused,
  refusedIoctls,
  refusedModeBits,
  type SeccompArch,
  socketCalls,
  unanswered,
} from '../seccomp.ts'
import { architectures, type Argument, bitsOf, masked } from './seccomp-profile.ts'

/** The filter of `seccomp.ts` for gVisor, which holds its processes by it as a kernel would. Of the rules about a call it takes the
 *  first that fits, and a call that no rule is about is its own to answer: it has none that are younger than itself. It takes its time
 *  over each rule before a cell can start, so they are few.
 *  Types and protocols of sockets it need not know: the cell's are its own, and load nothing. Nor allocation: it has no word by which
 *  programs would go on to write.
 *  It knows only EPERM for a refusal; ENOSYS is what it answers when a tracer is to be asked and there is none. */
export function gvisorFilter(arch: SeccompArch) {
  const rule = (action: keyof typeof actions, names: readonly string[], args: readonly Argument[] = []) => ({
    ...{ names, action: actions[action], args },
  })
  const whole = 0xffffffff
  return {
    defaultAction: actions.allow,
    architectures: [architectures[arch]],
    syscalls: [
      rule('refuse', refused),
      rule('ignore', ['clone3', ...unanswered]),
      ...bitsOf(newNamespaceFlags).map((bit) => rule('refuse', ['clone'], [masked(0, bit, bit)])),
      ...refusedIoctls.map((command) => rule('refuse', ['ioctl'], [masked(1, whole, command)])),
      ...allowedSockets.map(({ family }) => rule('allow', socketCalls, [masked(0, whole, family)])),
      rule('refuse', socketCalls),
      ...bitsOf(refusedModeBits).flatMap((bit) => [
        ...modeCalls.map(({ names, mode }) => rule('refuse', names, [masked(mode, bit, bit)])),
        ...openCalls.flatMap(({ name, flags, mode }) =>
          bitsOf(makingFlags).map((making) => rule('refuse', [name], [masked(flags, making, making), masked(mode, bit, bit)])),
        ),
      ]),
      ...allowedPersonalities.map((persona) => rule('allow', ['personality'], [masked(0, whole, persona)])),
      rule('refuse', ['personality']),
    ],
  }
}

const actions = { allow: 'SCMP_ACT_ALLOW', refuse: 'SCMP_ACT_ERRNO', ignore: 'SCMP_ACT_TRACE' } as const
