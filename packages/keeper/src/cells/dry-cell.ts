import { bwrapDriver } from './bwrap/bwrap.ts'
import { checkHeld, heldAs } from './bwrap/proof.ts'
import { trialCell } from './trial.ts'

/** Goes through the start of a cell with a program that makes none and leaves nothing: what it takes to load and compile for a first
 *  start is there when somebody waits for one. */
export async function dryCell(): Promise<void> {
  const folders = { workspace: '/usr', home: '/usr', scratch: '/usr', windows: null }
  const spec = { name: 'dry', ...folders, runAs: null, ...trialCell }
  try {
    await bwrapDriver({ bwrapPath: '/usr/bin/true' }).start(spec, new AbortController().signal)
  } finally {
    // It ended before it was looked at; this process is no more in a cell than that was.
    checkHeld(heldAs(process.pid), -1, 0)
  }
}
