import { Failure } from '@anchorhold/protocol/failures'
import { lacksProfile } from '../apparmor.ts'
import type { Lack } from '../cell.ts'
import { installCommand, type ReadText } from '../install.ts'

/** Distributions have brought --bind-fd to the releases that they have. */
const newEnough = 'Install bubblewrap 0.10.0 or newer, or the security update of 0.8.0 or 0.9.0'

export function lacksBwrap(read: ReadText): Lack {
  return { what: 'bubblewrap is not installed', remedy: installCommand(read, 'bubblewrap', '0.8.0 or newer') }
}

export function unavailable(lacks: readonly Lack[]): Failure {
  return new Failure('cell_unavailable', `Cannot start a bwrap cell: ${lacks.map(({ what }) => what).join('; ')}`, {
    hint: lacks.map(({ remedy }) => remedy).join('; '),
  })
}

/** Why a cell did not start, from what bwrap said and how the kernel is set. */
export function explain(said: string, bwrapPath: string, read: ReadText): Lack[] {
  const unknown = /Unknown option (\S+)/.exec(said)?.[1]
  if (unknown !== undefined) {
    return [{ what: `bubblewrap is too old: it does not know ${unknown}`, remedy: newEnough }]
  }
  if (read('/proc/sys/user/max_user_namespaces') === '0') {
    return [
      {
        what: 'user namespaces are switched off (user.max_user_namespaces is 0)',
        remedy: sysctl('user.max_user_namespaces=15000'),
      },
    ]
  }
  if (read('/proc/sys/kernel/unprivileged_userns_clone') === '0') {
    return [
      {
        what: 'user namespaces are for root alone (kernel.unprivileged_userns_clone is 0)',
        remedy: sysctl('kernel.unprivileged_userns_clone=1'),
      },
    ]
  }
  const unprofiled = lacksProfile(said, bwrapPath, read)
  if (unprofiled !== null) return [unprofiled]
  if (/namespace/i.test(said)) {
    return [
      {
        what: `the kernel refuses a namespace: ${said}`,
        remedy: 'Run outside the container, or give it a seccomp profile that allows unshare, clone and mount',
      },
    ]
  }
  return [{ what: `a cell does not start: ${said}`, remedy: 'Mend what is named and run "anchorhold doctor" again' }]
}

const sysctl = (setting: string) => `echo '${setting}' | sudo tee /etc/sysctl.d/60-anchorhold.conf && sudo sysctl --system`
