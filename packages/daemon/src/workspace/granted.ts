import { constants, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'

/** Who is let in by entries in access lists, and where: folders on the way, and the workspace itself last. */
const Granted = z.object({
  runAs: z.object({ uid: z.int(), gid: z.int() }),
  grants: z.array(z.string()).readonly(),
})
export type Granted = z.infer<typeof Granted>

const fileIn = (folder: string) => join(folder, 'granted.json')

/** Writes it down in a folder that whoever finds it with no one to own it clears away. Before the first entry is made: of one that
 *  nobody knows of, a later session under the same number would have the use. */
export function writeGranted(folder: string, granted: Granted): void {
  writeFileSync(fileIn(folder), JSON.stringify(granted), { mode: 0o600 })
}

/** Null where nothing was granted. */
export function readGranted(folder: string): Granted | null {
  try {
    // The folder may be another user's: nothing that they put there holds this up.
    const flag = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
    return Granted.parse(JSON.parse(readFileSync(fileIn(folder), { encoding: 'utf8', flag })))
  } catch {
    return null
  }
}
