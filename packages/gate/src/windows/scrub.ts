import { type Scrub, scrubEvents } from './scrub-events.ts'

/** Takes secrets out of what a server says. What is taken out is as long as what stands in its place, so no length that was said
 *  becomes wrong. */
export type Scrubber = {
  /** Strikes secrets out of a text that is there whole: a header, a message. */
  text(text: string): string
  /** Strikes secrets out of one body that comes in pieces; of `events` also what comes with an event for each piece. */
  body(kind: 'bytes' | 'events'): Scrub
}

const star = '*'.charCodeAt(0)
const nothing = Buffer.alloc(0)
/** So short a piece of a secret is found everywhere. */
const guiseBytesMin = 8

/** Finds each secret as it is, and as it looks in base64 wherever it stands there, in a URL, in JSON, in HTML, in hexadecimal and in UTF-16.
 *  Does not stop: a server that says a secret in some way of its own. */
export function scrubberOf(secrets: readonly string[]): Scrubber {
  const needles = secrets.flatMap(guisesOf)

  /** Strikes out in `into` all that stands whole in `bytes`. One secret may overlap another, so `bytes` stays as it came. */
  function strike(bytes: Buffer, into: () => Buffer): void {
    for (const needle of needles)
      for (let at = bytes.indexOf(needle); at !== -1; at = bytes.indexOf(needle, at + 1))
        into().fill(star, at, at + needle.length)
  }
  /** Where in the bytes the end begins that may be the beginning of a secret. */
  function cutOf(bytes: Buffer): number {
    let cut = bytes.length
    for (const needle of needles) {
      const from = Math.max(0, bytes.length - needle.length + 1)
      for (let at = bytes.indexOf(needle[0]!, from); at !== -1 && at < cut; at = bytes.indexOf(needle[0]!, at + 1))
        if (bytes.compare(needle, 0, bytes.length - at, at) === 0) cut = at
    }
    return cut
  }
  function struckOf(bytes: Buffer): Buffer {
    let out: Buffer | null = null
    strike(bytes, () => (out ??= Buffer.from(bytes)))
    return out ?? bytes
  }

  function bytesBody(): Scrub {
    /** What is held back, as it came: what was struck out for one secret may yet be the beginning of another. */
    let raw: Buffer = nothing
    /** The same with what was struck out. */
    let struck: Buffer = nothing
    return {
      chunk(chunk) {
        const bytes = raw.length === 0 ? chunk : Buffer.concat([raw, chunk])
        let out: Buffer | null = struck.equals(raw) ? null : Buffer.concat([struck, chunk])
        strike(bytes, () => (out ??= Buffer.from(bytes)))
        const done = out ?? bytes
        const cut = cutOf(bytes)
        // Copies: a small rest must not keep a large piece in memory.
        raw = Buffer.from(bytes.subarray(cut))
        struck = out === null ? raw : Buffer.from(done.subarray(cut))
        return done.subarray(0, cut)
      },
      end() {
        // So much of a secret is not said either: the rest of it may come in another answer.
        const rest = raw.length < guiseBytesMin ? struck : Buffer.alloc(raw.length, star)
        raw = nothing
        struck = nothing
        return rest
      },
    }
  }

  return {
    body: (kind) => (kind === 'bytes' ? bytesBody() : scrubEvents(bytesBody)),
    text: (text) => struckOf(Buffer.from(text, 'latin1')).toString('latin1'),
  }
}

function guisesOf(secret: string): Buffer[] {
  const bytes = Buffer.from(secret, 'utf8')
  const base64 = [0, 1, 2].flatMap((before) => {
    // What of it depends on the secret alone, whatever stands before and after it.
    const text = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64')
    const from = Math.ceil((before * 8) / 6)
    const to = Math.floor(((before + bytes.length) * 8) / 6)
    const core = text.slice(from, to)
    return [core, core.replaceAll('+', '-').replaceAll('/', '_')]
  })
  const hex = bytes.toString('hex')
  const url = encodeURIComponent(secret)
  // Others put into percent form what this leaves as it is.
  const marks = url.replaceAll(/[!'()*~._-]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`)
  const urls = [url, marks, url.replaceAll('%20', '+'), hex.replaceAll(/../g, '%$&').toUpperCase()]
  const json = JSON.stringify(secret).slice(1, -1)
  const escapes = json.replaceAll(/[<>&'+=]|[^\x20-\x7e]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`)
  const texts = [
    ...[secret, ...urls, ...urls.map((one) => one.replaceAll(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()))],
    // Some escape more than they must. Twice: a proxy puts the JSON that it was told into an error of its own.
    ...[json, json.replaceAll('/', '\\/'), escapes, JSON.stringify(json).slice(1, -1)],
    ...[secret.replaceAll(/[&<>"']/g, (one) => htmlOf[one]!), hex, hex.toUpperCase(), ...base64],
  ]
  return [...new Set(texts)]
    .map((text) => Buffer.from(text, 'utf8'))
    .concat(Buffer.from(secret, 'utf16le'))
    .filter(({ length }) => length >= guiseBytesMin)
}
const htmlOf: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }
