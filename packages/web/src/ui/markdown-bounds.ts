import { printable } from '@anchorhold/core/printable'

/** Markdown beyond these is shown as it is: to take it apart could take longer than anybody waits. */
const markdownCharsMax = 60_000
const lineCharsMax = 8000
const tooDeep = /^(?:[ \t]*(?:[>*+-]|\d{1,9}[.)])){20}/m
const tooManyMarks = /[[*_`~]{200}/
/** A list that is nested by its indentation. */
const tooFarIn = /^[ \t]{60,}(?:[*+-]|\d{1,9}[.)])[ \t]/m
/** Each mark may begin or end something, and some are held against each other: the time grows with their square. */
const marksMax = 4000
const linesMax = 4000

/** What an agent wrote, made safe to take apart: nothing in it moves, hides or turns text. */
export function readable(text: string): { readonly text: string; readonly markdown: boolean } {
  const clean = printable(text.replaceAll('\r\n', '\n'))
  const markdown =
    clean.length <= markdownCharsMax &&
    !tooDeep.test(clean) &&
    !tooFarIn.test(clean) &&
    !tooManyMarks.test(clean) &&
    !hasLongLine(clean) &&
    countOf(/[*_~`[\]|<>!&]/g, clean) <= marksMax &&
    countOf(/\n/g, clean) <= linesMax
  return { text: clean, markdown }
}

const countOf = (what: RegExp, text: string): number => text.match(what)?.length ?? 0

function hasLongLine(text: string): boolean {
  for (let from = 0; from < text.length;) {
    const end = text.indexOf('\n', from)
    const to = end === -1 ? text.length : end
    if (to - from > lineCharsMax) return true
    from = to + 1
  }
  return false
}

/** Where a link may lead: to pages and mailboxes, never to this page's own addresses or to code. */
export function safeLink(href: string | undefined): { readonly href: string; readonly host: string } | null {
  if (href === undefined) return null
  try {
    const url = new URL(href)
    if (url.protocol === 'mailto:') return { href: url.href, host: url.pathname }
    return url.protocol === 'https:' || url.protocol === 'http:' ? { href: url.href, host: url.host } : null
  } catch {
    return null
  }
}

/** Whether the text of a link is an address at the very host that it leads to, letter by letter: one that only contains the host, or
 *  that a browser would read as it, may look like another. */
export function saysWhere(text: string, { href, host }: { readonly href: string; readonly host: string }): boolean {
  const said = text.trim()
  return said === href || /^(?:https?:\/\/)?([^\s/?#]+)(?:[/?#]\S*)?$/i.exec(said)?.[1]?.toLowerCase() === host.toLowerCase()
}
