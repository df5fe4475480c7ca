import { Head, type LogName, LogName as Log, SignedHead } from '@anchorhold/protocol/heads'
import { houseBodies } from '@anchorhold/protocol/house'
import { firstDigest, firstHash, footerLine, hashTailChars, headerLine, headMessage, nextDigest } from './chain.ts'

/** What the platform does for it. */
export type VerifyCrypto = {
  /** Over the parts, one after the other; in hex. */
  readonly sha256: (...parts: readonly (string | Uint8Array)[]) => string
  readonly verify: (key: Uint8Array, message: string, signature: Uint8Array) => boolean
}

export type ProblemKind = 'changed' | 'removed' | 'added' | 'reordered' | 'truncated' | 'rewritten' | 'forged' | 'foreign'
export type Problem = { readonly line: number; kind: ProblemKind; words: string }

export type Verdict = {
  readonly intact: boolean
  readonly logs: number
  readonly events: number
  /** When the newest head was signed. */
  readonly at: number | null
  /** The fingerprints of the keys that signed. */
  readonly keys: readonly string[]
  readonly problems: readonly Problem[]
}

/** Takes an export line by line, each as its bytes without the newline. Nothing is held but where it stands. */
export interface ExportVerifier {
  line(bytes: Uint8Array): void
  /** `whole` is whether the last line ended with a newline. */
  end(options: { readonly whole: boolean }): Verdict
}

/** More of them say nothing new. */
const problemsMax = 100
const gapsMax = 100

/** A log on its way through. */
type Walk = {
  readonly log: LogName
  seq: number
  /** The hash of the line before as it stands there; null when it has none that can be read. */
  previous: string | null
  /** What the line before should have had, and what the one before that has: where one line was changed or put in, the next
   *  one follows from one of these. */
  instead: string | null
  before: string | null
  suspect: Problem | null
  readonly gaps: { readonly from: number; readonly to: number; left: number; readonly problem: Problem }[]
  last: Uint8Array | null
  troubled: boolean
}

/** Checks the chain and the signed head of every log in an export. A line is judged by its bytes: what they would decode to does
 *  not count. `key` is the fingerprint that must have signed. */
export function exportVerifier(crypto: VerifyCrypto, { key }: { readonly key?: string | undefined } = {}): ExportVerifier {
  const { sha256 } = crypto
  const problems: Problem[] = []
  const keys = new Set<string>()
  let n = 0
  let walk: Walk | null = null
  let logs = 0
  let events = 0
  let at: number | null = null
  let digest = firstDigest
  let house = false

  function found(kind: ProblemKind, words: string): Problem {
    const problem = { line: n, kind, words }
    if (problems.length < problemsMax) problems.push(problem)
    if (walk !== null) walk.troubled = true
    return problem
  }

  function header(text: string): void {
    const name = Log.safeParse(/"session":"([^"]*)"/.exec(text)?.[1])
    if (house) found('added', 'another log stands after that of the house, which is the last')
    if (!name.success || text !== headerLine(name.data)) {
      found('changed', 'it should begin a log, and is not as one begins')
      return
    }
    walk = {
      log: name.data,
      seq: 0,
      previous: firstHash(sha256, name.data),
      instead: null,
      before: null,
      suspect: null,
      gaps: [],
      last: null,
      troubled: false,
    }
  }

  function event(it: Walk, bytes: Uint8Array): void {
    events++
    const parts = split(bytes)
    if (parts === null) {
      found('changed', 'it is no event')
      Object.assign(it, { before: it.previous, previous: null, instead: null, suspect: null, seq: it.seq + 1 })
      return
    }
    it.last = bytes
    const { seq, text, hash } = parts
    const follows = (from: string | null) => from !== null && sha256(`${from}\n`, text) === hash
    if (seq > it.seq + 1) return gap(it, seq, hash)
    if (seq <= it.seq) return early(it, seq, hash, follows)
    const fits = it.previous === null || follows(it.previous) || follows(it.instead)
    it.suspect = fits ? null : found('changed', `event ${seq} was changed, or the line before it was and got a new hash`)
    it.instead = fits || it.previous === null ? null : sha256(`${it.previous}\n`, text)
    Object.assign(it, { before: it.previous, previous: hash, seq })
  }

  function gap(it: Walk, seq: number, hash: string): void {
    const [from, to] = [it.seq + 1, seq - 1]
    const problem = found('removed', `${from === to ? `event ${from} is` : `events ${from} to ${to} are`} missing before it`)
    if (it.gaps.length < gapsMax) it.gaps.push({ from, to, left: to - from + 1, problem })
    Object.assign(it, { before: it.previous, previous: hash, instead: null, suspect: null, seq })
  }

  /** An event whose number was passed already. */
  function early(it: Walk, seq: number, hash: string, follows: (from: string | null) => boolean): void {
    const missed = it.gaps.find(({ from, to }) => from <= seq && seq <= to)
    if (missed !== undefined) {
      found('reordered', `event ${seq} stands after event ${it.seq}`)
      const told = problems.indexOf(missed.problem)
      if (--missed.left === 0 && told !== -1) problems.splice(told, 1)
    } else if (it.suspect !== null && seq === it.seq && follows(it.before)) {
      // This is the true one, so it was the line before it that did not belong here.
      Object.assign(it.suspect, { kind: 'added', words: `another event ${seq} was put in` })
      Object.assign(it, { previous: hash, instead: null, suspect: null })
    } else found('added', `event ${seq} stands here a second time`)
  }

  function footer(it: Walk, text: string): void {
    const parsed = readFooter(text)
    if (parsed === null) {
      found('changed', 'it should end the log with a signed head, and is not as one ends')
      return
    }
    const { head, signed } = parsed
    const publicKey = fromHex(signed.key)
    if (head.session !== it.log) found('changed', `the signed head is of another log ("${head.session}")`)
    if (sha256(publicKey) !== signed.fingerprint || !crypto.verify(publicKey, headMessage(head), fromHex(signed.signature)))
      found('forged', 'the signature is not that of the key beside it')
    if (key !== undefined && signed.fingerprint !== key)
      found('foreign', `it was signed with another key (${signed.fingerprint})`)
    keys.add(signed.fingerprint)
    at = Math.max(at ?? 0, head.at)
    if (head.seq > it.seq) found('truncated', `the log was cut off: it went on to event ${head.seq}`)
    else if (head.seq < it.seq) found('added', `what follows event ${head.seq} was put in: the signed head ends there`)
    else if (head.hash !== it.previous && !it.troubled)
      found('rewritten', 'the log was made anew: each line follows from the one before, and the last is not what was signed')
    if (it.log === 'house') ended(it)
    else digest = nextDigest(sha256, digest, text)
    logs++
  }

  /** The house's log comes last, and its last event says what the export holds. */
  function ended(it: Walk): void {
    house = true
    const said = it.last === null ? null : exported(it.last)
    if (said === null) found('truncated', 'the log of the house does not end with what was exported')
    else if (said.logs !== logs || said.digest !== digest)
      found('removed', `whole logs were taken out, put in or exchanged: ${said.logs} were exported, ${logs} are here`)
  }

  return {
    line(bytes) {
      n++
      const start = ascii(bytes.subarray(0, 16))
      const begins = start.startsWith('{"anchorhold":')
      if (walk !== null && !begins && !start.startsWith('{"head":')) return event(walk, bytes)
      const text = ascii(bytes)
      if (begins) {
        if (walk !== null) found('truncated', 'the log before it has no signed head')
        header(text)
      } else if (walk === null) found('changed', 'a log should begin here')
      else {
        footer(walk, text)
        walk = null
      }
    },
    end({ whole }) {
      n++
      if (n === 1) found('truncated', 'there is nothing')
      else if (walk !== null) found('truncated', 'the last log has no signed head')
      else if (!whole) found('truncated', 'the last line does not end')
      else if (logs > 1 && !house)
        found('truncated', 'several logs, and not that of the house, which would say how many there were')
      return { intact: problems.length === 0, logs, events, at, keys: [...keys], problems }
    },
  }
}

/** Bytes as characters, one each: enough for what is plain ASCII where it is as it should be. */
const ascii = (bytes: Uint8Array): string => {
  let text = ''
  for (let i = 0; i < bytes.length; i += 4096) text += String.fromCharCode(...bytes.subarray(i, i + 4096))
  return text
}

function split(bytes: Uint8Array): { readonly seq: number; readonly text: Uint8Array; readonly hash: string } | null {
  const end = bytes.length - hashTailChars
  if (end <= 0) return null
  const hash = /^,"hash":"([0-9a-f]{64})"\}$/.exec(ascii(bytes.subarray(end)))?.[1]
  const seq = /^\{"seq":([1-9]\d{0,14}),/.exec(ascii(bytes.subarray(0, 32)))?.[1]
  return hash === undefined || seq === undefined ? null : { seq: Number(seq), text: bytes.subarray(0, end), hash }
}

/** A footer counts only if writing it anew gives the same line. */
function readFooter(text: string): { readonly head: Head; readonly signed: SignedHead } | null {
  try {
    const { head, ...signed } = JSON.parse(text) as { head: unknown }
    const read = { head: Head.parse(head), signed: SignedHead.strict().parse(signed) }
    return footerLine(read.head, read.signed) === text ? read : null
  } catch {
    return null
  }
}

function exported(bytes: Uint8Array): { readonly logs: number; readonly digest: string } | null {
  try {
    const { type, body } = JSON.parse(new TextDecoder().decode(bytes)) as {
      type: string
      body: unknown
    }
    return type === 'exported' ? houseBodies.exported.parse(body) : null
  } catch {
    return null
  }
}

const fromHex = (hex: string): Uint8Array => Uint8Array.from(hex.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16))
