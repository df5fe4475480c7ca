/** One body on its way. When the body breaks off, `end()` is not called: what is held back then goes nowhere. */
export type Scrub = {
  /** What can go on of all that has come so far: it never holds a secret, nor the beginning of one. */
  chunk(chunk: Buffer): Buffer
  /** The rest, when nothing more comes. */
  end(): Buffer
}

/** A run of bytes that waits to go on: of a growing text, or of what stands around such texts. */
type Run = { readonly bytes: Buffer; readonly isText: boolean; seenBytes: number }

/** Where the answers of models grow from event to event: in Messages, Responses, Chat Completions and Gemini. */
const growing: ReadonlySet<string> = new Set([
  ...['text', 'thinking', 'partial_json', 'delta', 'content', 'arguments', 'reasoning', 'reasoning_content', 'refusal'],
])
const nameBytesMax = Math.max(...[...growing].map(({ length }) => length))
/** What may wait for the end of what may be a secret. */
const waitingBytesMax = 1024 * 1024
const waitingRunsMax = 10_000

/** Strikes secrets out of a stream of events, also those that come in pieces with an event for each: the texts in the events are looked at
 *  as the one text that an agent makes of them. What goes on is as long as what came. Only what may be the beginning of a secret waits, and
 *  what stands behind it.
 *  Does not stop: pieces in other fields than those that grow, or with a letter of the secret written as an escape. */
export function scrubEvents(bytesOf: () => Scrub): Scrub {
  const all = bytesOf()
  const text = bytesOf()
  const runsOf = textRuns()
  let waiting: Run[] = []

  function take(bytes: Buffer): void {
    const seen: Buffer[] = []
    for (const run of runsOf(bytes)) {
      waiting.push(run)
      if (run.isText) seen.push(text.chunk(run.bytes))
    }
    settle(Buffer.concat(seen))
    // A secret's pieces never stand so far apart.
    const waitingBytes = waiting.reduce((sum, run) => sum + run.bytes.length, 0)
    if (waitingBytes > waitingBytesMax || waiting.length > waitingRunsMax) settle(text.end())
  }
  /** Puts what was looked at back where it came from, in order. */
  function settle(seen: Buffer): void {
    let from = 0
    for (const run of waiting) {
      if (from === seen.length) return
      if (!run.isText) continue
      const to = Math.min(seen.length, from + run.bytes.length - run.seenBytes)
      seen.copy(run.bytes, run.seenBytes, from, to)
      run.seenBytes += to - from
      from = to
    }
  }
  /** All in front of the first text that waits. */
  function goOn(): Buffer {
    const open = waiting.findIndex(({ isText, seenBytes, bytes }) => isText && seenBytes < bytes.length)
    const ready = open === -1 ? waiting : waiting.slice(0, open)
    const [first, ...behind] = open === -1 ? [] : waiting.slice(open)
    if (first === undefined) {
      waiting = []
      return Buffer.concat(ready.map(({ bytes }) => bytes))
    }
    waiting = [{ bytes: first.bytes.subarray(first.seenBytes), isText: true, seenBytes: 0 }, ...behind]
    return Buffer.concat([...ready.map(({ bytes }) => bytes), first.bytes.subarray(0, first.seenBytes)])
  }

  return {
    chunk(chunk) {
      take(all.chunk(chunk))
      return goOn()
    },
    end() {
      take(all.end())
      settle(text.end())
      return goOn()
    },
  }
}

const [quote, backslash, colon, space, lf, cr] = [0x22, 0x5c, 0x3a, 0x20, 0x0a, 0x0d]

/** Tells the texts that grow from what stands around them, in JSON that comes in pieces. Each line begins anew. */
function textRuns(): (bytes: Buffer) => Run[] {
  let inString = false
  let isEscaped = false
  /** The string that was read last, as far as it can be a name. */
  let name = ''
  /** The name whose value comes now. */
  let valueOf: string | null = null
  let isText = false

  return (chunk) => {
    // A copy: what is struck out is written into it.
    const bytes = Buffer.from(chunk)
    const runs: Run[] = []
    let from = 0
    const cut = (to: number) => {
      if (to > from) runs.push({ bytes: bytes.subarray(from, to), isText, seenBytes: 0 })
      from = to
    }
    for (let at = 0; at < bytes.length; at++) {
      const byte = bytes[at]!
      if (byte === lf || byte === cr) {
        cut(at)
        inString = isEscaped = isText = false
        valueOf = null
      } else if (!inString) {
        if (byte === quote) {
          cut(at + 1)
          inString = true
          isText = valueOf !== null && growing.has(valueOf)
          valueOf = null
          name = ''
        } else if (byte === colon) valueOf = name
        else if (byte !== space) valueOf = null
      } else if (isEscaped) isEscaped = false
      else if (byte === backslash) isEscaped = true
      else if (byte === quote) {
        cut(at)
        inString = isText = false
      } else if (name.length <= nameBytesMax) name += String.fromCharCode(byte)
    }
    cut(bytes.length)
    return runs
  }
}
