import { noExtras } from '@anchorhold/protocol/sessions'
import { bwrapDriver } from './bwrap/bwrap.ts'

/** Goes through the start of a cell with a program that makes none and leaves nothing: what it takes to load and compile for a first
 *  start is there when somebody waits for one. */
export async function dryCell(): Promise<void> {
  const nothing = { windows: null, mounts: [], network: 'none' as const, covers: [], root: null, extras: noExtras, cgroups: [] }
  const limits = {
    ...{ memoryBytes: 2 ** 30, processesMax: 512, cpus: 1, diskBytes: 2 ** 30, fileBytes: 2 ** 30 },
    ...{ openFilesMax: 512, tmpBytes: 2 ** 20 },
  }
  const spec = { name: 'dry', workspace: '/usr', home: '/usr', scratch: '/usr', limits, runAs: null, ...nothing }
  await bwrapDriver({ bwrapPath: '/usr/bin/true' }).start(spec, new AbortController().signal)
}
