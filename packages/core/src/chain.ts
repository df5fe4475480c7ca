import type { Head, LogName, SignedHead } from '@anchorhold/protocol/heads'

/** SHA-256 of a text's bytes, in hex. */
export type Sha256 = (text: string) => string

/** What every chain begins with: it ties the events to their log. */
export const firstHash = (sha256: Sha256, log: LogName): string => sha256(`anchorhold log 1\n${log}`)

export type LineOptions = {
  readonly seq: number
  readonly at: number
  readonly source: string
  readonly type: string
  /** As it is stored. Nothing is ever parsed and written anew on its way into an export. */
  readonly body: string
}

/** An event as it is exported, up to where its hash stands. */
export const lineOf = ({ seq, at, source, type, body }: LineOptions): string =>
  `{"seq":${seq},"at":${at},"source":${JSON.stringify(source)},"type":${JSON.stringify(type)},"body":${body}`

/** The hash of an event covers the one before it, and so all before it. */
export const nextHash = (sha256: Sha256, previous: string, line: string): string => sha256(`${previous}\n${line}`)

export const hashedLine = (line: string, hash: string): string => `${line},"hash":"${hash}"}`
/** How many characters of a line its hash and what encloses it take. */
export const hashTailChars = hashedLine('', '0'.repeat(64)).length

/** The first line of a log's export. */
export const headerLine = (log: LogName): string => `{"anchorhold":"log","version":1,"session":"${log}"}`

/** The last line of a log's export. */
export const footerLine = ({ session, seq, hash, at }: Head, { key, fingerprint, signature }: SignedHead): string =>
  JSON.stringify({ head: { session, seq, hash, at }, key, fingerprint, signature })

/** What is signed of a head: no other thing that is ever signed begins like this. */
export const headMessage = ({ session, seq, hash, at }: Head): string =>
  `anchorhold head 1\n${JSON.stringify({ session, seq, hash, at })}`

/** One digest over the signed heads of an export of everything, in their order. */
export const nextDigest = (sha256: Sha256, digest: string, footer: string): string => sha256(`${digest}\n${footer}`)
export const firstDigest = '0'.repeat(64)
