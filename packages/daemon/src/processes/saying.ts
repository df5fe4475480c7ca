import { saidIn } from '@anchorhold/core/open-blocks'
import { readFound } from '@anchorhold/link/found-file'
import type { LiveFrame } from '@anchorhold/protocol/events'
import { frameBytesMax } from '@anchorhold/protocol/link'

/** What a machine is short of for a while: whoever asks again may be answered. */
const passing = ['EMFILE', 'ENFILE', 'ENOMEM']

/** What an agent was saying when its keeper died. The file may be missing, and the session's user may have put anything in its place: then it
 *  said nothing, as where the disk has lost it. Throws where it only cannot be read now. The file stays until the next keeper begins it
 *  anew: this daemon may die before what is in it is stored. */
export async function readSaying(path: string, read = readFound): Promise<readonly LiveFrame[]> {
  const text = await read(path, frameBytesMax).catch((error: NodeJS.ErrnoException) => {
    if (passing.includes(error.code ?? '')) throw error
    return ''
  })
  return saidIn(text)
}
