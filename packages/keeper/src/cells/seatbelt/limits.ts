import { sizeWords } from '@anchorhold/core/size-words'
import { spawnSync } from 'node:child_process'
import type { LimitInForce } from '@anchorhold/protocol/rungs'
import type { CellSpec } from '../cell.ts'

/** The command that takes on what a shell can limit and becomes what follows it. */
export type UnderLimits = { readonly argv: readonly [string, ...string[]]; readonly processesMax: number }

/** By ulimit alone: macOS has no control groups, and of rlimits it knows these. */
export function underLimits({ limits, runAs }: Pick<CellSpec, 'limits' | 'runAs'>): UnderLimits {
  const processesMax = limits.processesMax + countProcessesOf(runAs?.uid ?? process.getuid?.() ?? 0)
  const set = [
    'ulimit -c 0',
    `ulimit -n ${limits.openFilesMax}`,
    `ulimit -f ${Math.ceil(limits.fileBytes / blockBytes)}`,
    // What cannot be set is told when a process inside reads it back.
    `ulimit -u ${processesMax} 2>/dev/null || :`,
  ]
  // Without what the environment would have a shell read first.
  return { argv: ['/bin/bash', '-p', '-c', [...set, closing, 'exec "$@"'].join('\n'), 'bash'], processesMax }
}

/** In which a shell counts `ulimit -f`; a process inside tries it out. */
const blockBytes = 1024

/** What this process was itself started with is handed on otherwise. */
const closing = 'for each in /dev/fd/*; do case ${each##*/} in 0 | 1 | 2) ;; *) eval "exec ${each##*/}>&-" ;; esac; done'

/** Only what a process inside has read back; the rest is not enforced, and says why. */
export function limitsSeen(report: string, { limits }: Pick<CellSpec, 'limits'>, under: UnderLimits): LimitInForce[] {
  const seen = (name: string) => {
    const value = new RegExp(`^${name} (\\d+)$`, 'm').exec(report.replaceAll(/ +/g, ' '))?.[1]
    return value === undefined ? null : Number(value)
  }
  const by = (
    name: LimitInForce['name'],
    value: number | null,
    wanted: number,
    words: (value: number) => string,
    how: string,
  ): LimitInForce =>
    value !== null && value <= wanted
      ? { name, value: words(value), enforcement: 'enforced', how }
      : { name, value: words(wanted), enforcement: 'not enforced', how: 'the rlimit could not be set' }
  const not = (name: LimitInForce['name'], value: string, how: string): LimitInForce => ({
    ...{ name, value, enforcement: 'not enforced', how },
  })
  const [blocks, block] = [seen('fsize'), seen('block')]
  const fileBytes = blocks === null || block === null ? null : blocks * block
  return [
    {
      name: 'memory',
      value: sizeWords(limits.memoryBytes),
      enforcement: 'watched',
      how: 'the cell is ended when its processes are seen to hold more',
    },
    by('processes', seen('nproc'), under.processesMax, String, 'rlimit, over all processes of the user on this machine'),
    not('cpu', `${limits.cpus} CPUs`, 'macOS cannot limit it'),
    not('disk', sizeWords(limits.diskBytes), 'this rung does not measure it'),
    by('file_size', fileBytes, limits.fileBytes, sizeWords, 'rlimit'),
    by('open_files', seen('nofile'), limits.openFilesMax, String, 'rlimit'),
    not('tmp', sizeWords(limits.tmpBytes), 'its folder lies on the disk of the host'),
  ]
}

function countProcessesOf(uid: number): number {
  const { stdout } = spawnSync('/bin/ps', ['-axo', 'uid='], { env: { PATH: '/usr/bin:/bin' }, encoding: 'utf8' })
  return stdout.split('\n').filter((line) => line.trim() === String(uid)).length
}
