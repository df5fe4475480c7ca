import type { ReactNode } from 'react'
import ReactMarkdown, { type Components, type Options } from 'react-markdown'
import remarkGfm from 'remark-gfm'
import remend from 'remend'
import { pictureInMarkdown } from '../log/workspace-path.ts'
import { Code } from './Code.tsx'
import { safeLink, saysWhere } from './markdown-bounds.ts'
import { usePictureShelf, WorkspacePicture } from './WorkspacePicture.tsx'

/** Never HTML: tags are text, no picture is loaded but from the session's own workspace, and a link says where it leads. What is given
 *  here is within bounds. */
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
        {!saysWhere(textOf(children), link) && <span className="text-[0.85em] text-faint"> ({link.host})</span>}
      </>
    )
  },
  img: MarkdownPicture,
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

function MarkdownPicture({ alt, src }: { readonly alt?: string | undefined; readonly src?: string | Blob | undefined }) {
  const shelf = usePictureShelf()
  const address = typeof src === 'string' ? src : ''
  const path = shelf === null ? null : pictureInMarkdown(address, shelf.folder)
  if (shelf !== null && path !== null) return <WorkspacePicture shelf={shelf} path={path} alt={alt ?? ''} />
  return (
    <span className="text-faint">
      [image{alt ? `: ${alt}` : ''}
      {address === '' ? '' : `, not loaded from ${safeLink(address)?.host ?? 'there'}`}]
    </span>
  )
}

function textOf(node: ReactNode): string {
  if (typeof node === 'string' || typeof node === 'number') return String(node)
  if (Array.isArray(node)) return node.map((one: ReactNode) => textOf(one)).join('')
  if (typeof node === 'object' && node !== null && 'props' in node)
    return textOf((node.props as { children?: ReactNode }).children)
  return ''
}
