import { readFound } from '@anchorhold/link/found-file'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'

/** Who is let in by entries in access lists, and where: folders on the way, and the workspace itself last. */
const Granted = z.lazy(() =>
  z.object({
    runAs: z.object({ uid: z.int(), gid: z.int() }),
    grants: z.array(z.string()).readonly(),
  }),
)
export type Granted = z.infer<typeof Granted>

const bytesMax = 1024 * 1024
const fileIn = (folder: string) => join(folder, 'granted.json')

/** Writes it down in a folder that whoever finds it with no one to own it clears away. Before the first entry is made: of one that
 *  nobody knows of, a later session under the same number would have the use. */
export function writeGranted(folder: string, granted: Granted): void {
  writeFileSync(fileIn(folder), JSON.stringify(granted), { mode: 0o600 })
}

/** Null where nothing was granted. */
export async function readGranted(folder: string): Promise<Granted | null> {
  try {
    return Granted.parse(JSON.parse(await readFound(fileIn(folder), bytesMax)))
  } catch {
    return null
  }
}
