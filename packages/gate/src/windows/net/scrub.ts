/** Takes secrets out of what a server says. What is taken out is as long as what stands in its place, so no length that was said
 *  becomes wrong. */
export type Scrub = {
  /** What can go on of all that has come so far: it never holds a secret, nor the beginning of one. */
  chunk(chunk: Buffer): Buffer
  /** The rest, when nothing more comes. */
  end(): Buffer
  text(text: string): string
}

const star = '*'.charCodeAt(0)

/** Finds each secret as it is, and as it looks in base64 wherever it stands there, in a URL, in JSON and in hexadecimal.
 *  Does not stop: a server that says it in some way of its own. */
export function scrubOf(secrets: readonly string[]): Scrub {
  const needles = [...new Set(secrets.flatMap(guisesOf))].map((guise) => Buffer.from(guise, 'latin1'))
  const longest = Math.max(0, ...needles.map(({ length }) => length))
  let kept = Buffer.alloc(0)

  /** Strikes out all that is there whole. */
  function strike(bytes: Buffer): Buffer {
    let out: Buffer | null = null
    for (const needle of needles) {
      for (let at = bytes.indexOf(needle); at !== -1; at = bytes.indexOf(needle, at + 1)) {
        // Looked for in what came and struck out in a copy: one may overlap another.
        out ??= Buffer.from(bytes)
        out.fill(star, at, at + needle.length)
      }
    }
    return out ?? bytes
  }
  /** How much at the end may be the beginning of one. */
  function begun(bytes: Buffer): number {
    for (let length = Math.min(longest - 1, bytes.length); length > 0; length--) {
      const tail = bytes.subarray(bytes.length - length)
      if (needles.some((needle) => needle.length > length && needle.subarray(0, length).equals(tail))) return length
    }
    return 0
  }
  return {
    chunk(chunk) {
      const bytes = kept.length === 0 ? chunk : Buffer.concat([kept, chunk])
      const cut = bytes.length - begun(bytes)
      // A needle may reach over the cut and be whole all the same: it is struck out before the cut is made.
      const struck = strike(bytes)
      kept = Buffer.from(struck.subarray(cut))
      return struck.subarray(0, cut)
    },
    end() {
      const rest = strike(kept)
      kept = Buffer.alloc(0)
      return rest
    },
    text: (text) => strike(Buffer.from(text, 'latin1')).toString('latin1'),
  }
}

/** So short a piece of one is found everywhere. */
const guiseCharsMin = 8

function guisesOf(secret: string): string[] {
  const bytes = Buffer.from(secret, 'utf8')
  const raw = bytes.toString('latin1')
  const base64 = [0, 1, 2].flatMap((before) => {
    // What of it depends on the secret alone, whatever stands before and after it.
    const text = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64')
    const from = Math.ceil((before * 8) / 6)
    const to = Math.floor(((before + bytes.length) * 8) / 6)
    const core = text.slice(from, to)
    return [core, core.replaceAll('+', '-').replaceAll('/', '_')]
  })
  const url = encodeURIComponent(secret)
  const lower = url.replaceAll(/%[0-9A-F]{2}/g, (code) => code.toLowerCase())
  const json = JSON.stringify(secret).slice(1, -1)
  const hex = bytes.toString('hex')
  const guises = [raw, url, lower, json, json.replaceAll('/', '\\/'), hex, hex.toUpperCase(), ...base64]
  return guises.filter(({ length }) => length >= guiseCharsMin)
}
