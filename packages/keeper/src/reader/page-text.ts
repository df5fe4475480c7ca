import { Parser } from 'htmlparser2'

/** What of a page an agent reads. */
export type PageText = { readonly title: string; readonly text: string; readonly truncated: boolean }

export type Page = {
  readonly url: string
  /** As the server says it. */
  readonly type: string
  readonly bytes: Uint8Array
}

const titleCharsMax = 300
/** A part that is marked as the page's own is taken for it when it says at least so much. */
const mainCharsMin = 200

/** The text of a page; null when it has none that can be read. */
export function pageText(page: Page, charsMax: number): PageText | null {
  const kind = page.type.split(';')[0]!.trim().toLowerCase()
  const isHtml = kind === 'text/html' || kind === 'application/xhtml+xml'
  if (!isHtml && !/^(text\/.*|application\/([\w.-]*\+)?(json|xml|yaml|javascript|x-ndjson|toml))$/.test(kind) && kind !== '')
    return null
  const raw = decode(page, isHtml)
  // Without a type it may be anything: what has zeros is no text.
  if (kind === '' && raw.includes('\0')) return null
  const { title, text } = isHtml ? htmlText(raw, page.url) : { title: '', text: raw }
  return { title: title.slice(0, titleCharsMax), text: text.slice(0, charsMax), truncated: text.length > charsMax }
}

function decode({ bytes, type }: Page, isHtml: boolean): string {
  const said = /charset=["']?([\w:.-]+)/i.exec(type)?.[1]
  const start = isHtml && said === undefined ? new TextDecoder('latin1').decode(bytes.subarray(0, 1024)) : ''
  const label = said ?? /<meta[^>]+charset=["']?([\w:.-]+)/i.exec(start)?.[1] ?? 'utf-8'
  try {
    return new TextDecoder(label).decode(bytes)
  } catch {
    return new TextDecoder().decode(bytes)
  }
}

const silent = new Set([
  'script',
  'style',
  'noscript',
  'template',
  'svg',
  'iframe',
  'object',
  'canvas',
  'head',
  'select',
  'datalist',
])
/** What stands around a page and not in it. */
const around = new Set(['nav', 'footer', 'aside', 'header', 'form', 'dialog'])
const main = new Set(['main', 'article'])
const blocks = new Set([
  ...['p', 'div', 'section', 'article', 'main', 'header', 'footer', 'aside', 'nav', 'ul', 'ol', 'dl', 'dt', 'dd', 'table', 'tr'],
  ...['blockquote', 'figure', 'figcaption', 'form', 'fieldset', 'address', 'details', 'summary', 'hr', 'body', 'dialog'],
])

type Place = 'main' | 'body' | 'around'

/** Title and text, with headings, lists, code and links as Markdown writes them. */
function htmlText(html: string, url: string): { readonly title: string; readonly text: string } {
  let title = ''
  let inTitle = false
  const depth = { silent: 0, around: 0, main: 0, pre: 0 }
  const pieces: { place: Place; text: string }[] = []
  const links: string[] = []
  const say = (text: string) => {
    const place: Place = depth.around > 0 ? 'around' : depth.main > 0 ? 'main' : 'body'
    pieces.push({ place, text })
  }
  const count = (name: string, by: 1 | -1) => {
    if (silent.has(name)) depth.silent = Math.max(0, depth.silent + by)
    if (main.has(name)) depth.main = Math.max(0, depth.main + by)
    // The heading of an article is a part of it.
    if (around.has(name) && !(name === 'header' && depth.main > 0)) depth.around = Math.max(0, depth.around + by)
  }
  const parser = new Parser({
    onopentag(name, attributes) {
      if (name === 'title' && title === '') inTitle = true
      count(name, 1)
      if (depth.silent > 0) return
      if (/^h[1-6]$/.test(name)) say(`\n\n${'#'.repeat(Number(name[1]))} `)
      else if (name === 'li') say('\n- ')
      else if (name === 'br') say('\n')
      else if (name === 'td' || name === 'th') say(' | ')
      else if (name === 'pre') {
        depth.pre++
        say('\n\n```\n')
      } else if (name === 'code' && depth.pre === 0) say('`')
      else if (name === 'a') {
        const to = linkOf(attributes.href, url)
        links.push(to)
        if (to !== '') say('[')
      } else if (name === 'img' && attributes.alt !== undefined && attributes.alt !== '')
        say(attributes.alt.replaceAll(/\s+/g, ' '))
      else if (blocks.has(name)) say('\n\n')
    },
    ontext(text) {
      if (inTitle) title += text
      else if (depth.silent === 0) say(depth.pre > 0 ? text : text.replaceAll(/\s+/g, ' '))
    },
    onclosetag(name) {
      if (name === 'title') inTitle = false
      const isSilent = depth.silent > 0
      if (!isSilent) {
        if (name === 'pre' && depth.pre > 0) {
          depth.pre--
          say('\n```\n\n')
        } else if (name === 'code' && depth.pre === 0) say('`')
        else if (name === 'a') {
          const to = links.pop() ?? ''
          // One without words says nothing.
          if (to !== '' && pieces.at(-1)?.text === '[') pieces.pop()
          else if (to !== '') say(`](${to})`)
        } else if (/^h[1-6]$/.test(name) || blocks.has(name)) say('\n\n')
      }
      count(name, -1)
    },
  })
  parser.end(html)
  const of = (...places: readonly Place[]) =>
    tidy(
      pieces
        .filter(({ place }) => places.includes(place))
        .map(({ text }) => text)
        .join(''),
    )
  const own = of('main')
  const body = own.length >= mainCharsMin ? own : of('main', 'body')
  return {
    title: title.replaceAll(/\s+/g, ' ').trim(),
    text: body.length >= mainCharsMin ? body : of('main', 'body', 'around'),
  }
}

/** Where a link leads, if a page can be read there; nothing for places on the same page. */
function linkOf(href: string | undefined, base: string): string {
  if (href === undefined || href.startsWith('#')) return ''
  const to = URL.parse(href, base)
  return to !== null && /^https?:$/.test(to.protocol) ? to.href : ''
}

const tidy = (text: string): string =>
  text
    .replaceAll('\u00a0', ' ')
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n')
    .replaceAll(/\n{3,}/g, '\n\n')
    .trim()
