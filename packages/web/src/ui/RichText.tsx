import type { ReactNode } from 'react'
import ReactMarkdown, { type Components, type Options } from 'react-markdown'
import remarkGfm from 'remark-gfm'
import remend from 'remend'
import { Code } from './Code.tsx'
import { safeLink } from './markdown-bounds.ts'

/** Never HTML: tags are text, pictures are not loaded, and a link says where it leads. What is given here is within bounds. */
export function RichText({ text, growing }: { readonly text: string; readonly growing: boolean }) {
  return (
    <div className={`prose ${growing ? 'caret' : ''}`}>
      <ReactMarkdown remarkPlugins={remarkPlugins} components={components}>
        {growing ? remend(text) : text}
      </ReactMarkdown>
    </div>
  )
}

const remarkPlugins: Options['remarkPlugins'] = [[remarkGfm, { singleTilde: false }]]

const components: Components = {
  a({ href, children }) {
    const link = safeLink(href)
    if (link === null) return <span>{children}</span>
    return (
      <>
        <a href={link.href} target="_blank" rel="noopener noreferrer nofollow" title={link.href}>
          {children}
        </a>
        {!textOf(children).includes(link.host) && <span className="text-[0.85em] text-faint"> ({link.host})</span>}
      </>
    )
  },
  img: ({ alt, src }) => (
    <span className="text-faint">
      [image{alt ? `: ${alt}` : ''}
      {typeof src === 'string' && src !== '' ? `, not loaded from ${safeLink(src)?.host ?? 'there'}` : ''}]
    </span>
  ),
  pre: ({ children }) => <>{children}</>,
  code({ className, children }) {
    const text = textOf(children)
    const language = /language-([\w+#-]+)/.exec(className ?? '')?.[1]
    // A block of code ends in a line feed; code within a line has none.
    return language === undefined && !text.endsWith('\n') ? (
      <code>{children}</code>
    ) : (
      <Code text={text.replace(/\n$/, '')} language={language ?? null} />
    )
  },
  input: ({ checked }) => (
    <input type="checkbox" checked={checked} readOnly disabled aria-label={checked ? 'Done' : 'Not done'} className="mr-2" />
  ),
}

function textOf(node: ReactNode): string {
  if (typeof node === 'string' || typeof node === 'number') return String(node)
  if (Array.isArray(node)) return node.map((one: ReactNode) => textOf(one)).join('')
  if (typeof node === 'object' && node !== null && 'props' in node)
    return textOf((node.props as { children?: ReactNode }).children)
  return ''
}
