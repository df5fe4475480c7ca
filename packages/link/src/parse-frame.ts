import { exceedsJson } from '@anchorhold/protocol/json-shape'

/** Ten times what the largest command or record comes to; and nested as deep as the deepest input of a tool that a keeper can write. */
const bounds = { partsMax: 2_000_000, depthMax: 100_000 }
/** What is smaller cannot take long, whatever is in it. */
const smallBytes = 64 * 1024

/** Reads a frame or a record. Who writes it may be a session's user, and a frame may be large: with a value for every other byte, or nested
 *  as deep as it is long, one would hold up this process and everybody whom it serves for half a minute. */
export function parseFrame(bytes: Buffer): unknown {
  if (bytes.length > smallBytes && exceedsJson(bytes, bounds))
    throw new Error('A frame has too many parts, or is nested too deeply')
  return JSON.parse(bytes.toString('utf8'))
}
