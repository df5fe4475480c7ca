import { readFound } from '@anchorhold/link/found-file'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'

/** Who is let in by entries in access lists, and where: folders on the way, and the workspace itself last. */
const Granted = z.object({
  runAs: z.object({ uid: z.int(), gid: z.int() }),
  grants: z.array(z.string()).readonly(),
})
export type Granted = z.infer<typeof Granted>

const bytesMax = 1024 * 1024

/** Where it is written down of what is no session's. A session's mark says it (`Folders.unsettled`). */
export const grantedIn = (base: string): string => join(base, 'granted.json')

/** Writes it down before the first entry is made: of one that nobody knows of, a later session under the same number would have the use.
 *  Invariant: the file is in a folder that only this user may write. Root goes by what it says. */
export function writeGranted(file: string, granted: Granted): void {
  writeFileSync(file, JSON.stringify(granted), { mode: 0o600 })
}

/** Null where nothing was granted. */
export async function readGranted(file: string): Promise<Granted | null> {
  try {
    return Granted.parse(JSON.parse(await readFound(file, bytesMax)))
  } catch {
    return null
  }
}
