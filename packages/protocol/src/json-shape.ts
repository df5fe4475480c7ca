/** What a parser of JSON takes beyond its share, counted before it begins: each value costs many times its bytes, and what is nested a
 *  million times takes it ten seconds for 32 MiB. */
export type JsonBounds = { readonly partsMax: number; readonly depthMax: number }

const [quote, backslash, comma, openList, closeList, openObject, closeObject] = [0x22, 0x5c, 0x2c, 0x5b, 0x5d, 0x7b, 0x7d]

/** Whether a text in JSON has more parts than that (texts, values, lists and objects), or is nested deeper. Invariant: one look at each
 *  byte, whatever they are. */
export function exceedsJson(bytes: Uint8Array, { partsMax, depthMax }: JsonBounds): boolean {
  let depth = 0
  let parts = 0
  let isText = false
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]
    if (isText) {
      if (byte === backslash) at++
      else if (byte === quote) isText = false
      continue
    }
    if (byte === quote) isText = true
    else if (byte === openList || byte === openObject) depth++
    else if (byte === closeList || byte === closeObject) {
      depth--
      continue
    } else if (byte !== comma) continue
    if (++parts > partsMax || depth > depthMax) return true
  }
  return false
}
