import type { RequestAction } from '@anchorhold/protocol/events'
import { toolNamed } from './agents/tools.ts'
import { printableActionLine, printableLine } from './printable.ts'
import { requestWords } from './request-words.ts'

const charsMax = 240
/** A session's name, and what it wants. */
const headingCharsMax = 160
/** What is looked at of an action: the patterns below take steps by the square of it, and a tool's input may be of any length. */
const wordsCharsMax = 2000

/** What is said of an action where others may look on, as on a locked phone. `whole`: these are its exact words, all of them, so
 *  that it can be decided upon there. */
export type Notice = { readonly title: string; readonly text: string; readonly whole: boolean }

/** `who`: the session's name, as it is to be shown. */
export function noticeOf(action: RequestAction, who: string): Notice {
  const { title, exact } = requestWords(action, who)
  const heading = printableLine(title.startsWith(who) ? title : `${who}: ${title}`).slice(0, headingCharsMax)
  if (action.kind === 'plan') return { title: heading, text: 'Open it to read and answer', whole: false }
  const [only, ...more] = exact
  const isCommand = action.kind === 'net' || (action.kind === 'tool' && toolNamed(action.tool).command !== undefined)
  if (isCommand && only !== undefined && only.name === null && more.length === 0) return exactly(heading, only.text)
  const words = exact.map(({ name, text }) => (name === null ? text : `${name}: ${text}`)).join(', ')
  return { ...exactly(heading, words), whole: false }
}

function exactly(title: string, words: string): Notice {
  // Behind the cut may be what tells a secret in front of it, so the last word is left out as well.
  const seen = words.length > wordsCharsMax ? words.slice(0, wordsCharsMax).replace(/\S{0,999}$/, '') : words
  const text = printableActionLine(withoutSecrets(seen))
  const isWhole = seen === words && text.length <= charsMax
  return {
    title,
    text: isWhole ? text : `${text.slice(0, charsMax)}…`,
    whole: isWhole && text === printableActionLine(words),
  }
}

/** Leaves out what looks like a credential. Does not stop: one that looks like an ordinary word. */
export function withoutSecrets(text: string): string {
  return secretShapes.reduce((rest, shape) => rest.replace(shape, '$1[hidden]'), text)
}

const secretShapes = [
  // user:password@host
  /(:\/\/)[^\s/@]+(?=@)/g,
  // Named as one: token=…, --password …, Authorization: Bearer …
  /((?:token|secret|passw(?:or)?d|api[-_]?key|access[-_]?key|credential)s?["']?\s*(?:[=:]|\s)\s*["']?)[^\s"'&]{4,}/gi,
  /((?:authorization|cookie)["']?\s*[:=]\s*["']?)[^"'\n]+/gi,
  /(\b(?:bearer|basic)\s+)[^\s"']{6,}/gi,
  // Known by how it begins.
  /(\b)(?:sk|pk|rk|ghp|gho|ghs|github_pat|glpat|xox[a-z]|npm|AKIA|ASIA|AIza|eyJ)[-_A-Za-z0-9.]{12,}/g,
  // Long and without a shape that a person would give it.
  /(^|[^A-Za-z0-9+/_-])(?=[A-Za-z+/_-]*\d)(?=[^A-Z]*[A-Z]|[0-9a-f]{32})[A-Za-z0-9+/_-]{32,}={0,2}/g,
] as const
