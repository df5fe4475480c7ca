import { filterWithout, type SeccompArch } from '../seccomp.ts'
import { find } from './refusals.ts'

// In a process of several threads, some calls wait until every processor of the host has once been at rest: 5 to 15 ms each, for
// nothing that a cell needs. Each of runsc's programs, of which one starts the next, makes one or two of them before it does anything else.

/** Runs what follows on a kernel without membarrier(2), which runsc then does without as well, and so does what is in the cell. For root
 *  of a user namespace. Where there is no perl, or nothing comes of it, what follows runs all the same. */
export function withoutBarriers(arch: SeccompArch): readonly string[] {
  const perl = find('perl')
  if (perl === null) return []
  const filter = filterWithout(arch, 'membarrier')
  // prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &(struct sock_fprog){ length, filter })
  const script = `
    my $filter = pack 'H*', '${filter.toString('hex')}';
    my $program = pack 'Sx6P', ${filter.length / 8}, $filter;
    syscall ${prctl[arch]}, 22, 2, $program, 0, 0;
    exec { $ARGV[0] } @ARGV;
    exit 127`
  return [perl, '-e', script, '--']
}
const prctl = { x64: 157, arm64: 167 } as const satisfies Record<SeccompArch, number>

/** runsc puts the streams of the cell's first process at 256 and above, and a table of descriptors that has to grow for that waits. One
 *  that a process was started with is as large as its last descriptor wants it to be. */
export const aboveStreams = 300
