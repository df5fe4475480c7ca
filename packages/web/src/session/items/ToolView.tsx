import { printable, printableAction, printableActionLine, printableLine } from '@anchorhold/core/printable'
import type { SessionId } from '@anchorhold/protocol/ids'
import { Bot, Check, ChevronRight, FilePen, FileText, ListChecks, Search, Terminal, Wrench, X } from 'lucide-react'
import { type ReactNode, useState } from 'react'
import { clip } from '../../log/clip.ts'
import type { ToolItem } from '../../log/fold.ts'
import { toolFace, type ToolFace } from '../../log/tool-face.ts'
import { pictureInWorkspace } from '../../log/workspace-path.ts'
import { Code } from '../../ui/Code.tsx'
import { CopyButton } from '../../ui/controls.tsx'
import { Diff } from '../../ui/Diff.tsx'
import { LongText } from '../../ui/LongText.tsx'
import { Markdown } from '../../ui/Markdown.tsx'
import { duration } from '../../ui/time.ts'
import { usePictureShelf, WorkspacePicture } from '../../ui/WorkspacePicture.tsx'
import { useElapsed } from '../use-saying.ts'
import { Todos } from './ChecklistView.tsx'

const icons: Readonly<Record<string, ReactNode>> = {
  Bash: <Terminal size={16} />,
  Read: <FileText size={16} />,
  Write: <FilePen size={16} />,
  Edit: <FilePen size={16} />,
  MultiEdit: <FilePen size={16} />,
  Grep: <Search size={16} />,
  Glob: <Search size={16} />,
  TodoWrite: <ListChecks size={16} />,
  Agent: <Bot size={16} />,
  Task: <Bot size={16} />,
}

const states = {
  running: { word: 'runs', icon: <span className="working-dot block size-2 rounded-full bg-accent" /> },
  done: { word: 'succeeded', icon: <Check size={15} className="text-good" /> },
  failed: { word: 'failed', icon: <X size={15} className="text-danger" /> },
  cut: { word: 'was cut off', icon: <X size={15} className="text-faint" /> },
} as const satisfies Record<ToolItem['state'], { word: string; icon: ReactNode }>

/** Where the input says what happened, and the output only that it did. */
const saysAll: ReadonlySet<ToolFace['body']['kind']> = new Set(['edits', 'file', 'todos', 'picture'])

/** A tool call: its useful part in a line, the rest behind it. */
export function ToolView({
  item,
  session,
  children,
}: {
  readonly item: ToolItem
  readonly session: SessionId
  /** A sub-agent's thread, each of its items. */
  readonly children: readonly ReactNode[]
}) {
  const face = toolFace(item)
  const elapsed = useElapsed(session, item.call)
  const [open, setOpen] = useState(false)
  const always = face.body.kind === 'todos' || face.body.kind === 'picture'
  const glimpse = !open && !always && face.body.kind === 'edits'
  const words = !open && item.state === 'running' ? lastWords(item) : ''
  const state = states[item.state]
  return (
    <div className="card overflow-hidden">
      <button
        type="button"
        aria-expanded={open || always}
        onClick={() => setOpen(!open)}
        className="flex min-h-11 w-full items-center gap-2.5 px-3.5 py-2 text-left text-sm hover:bg-raised"
      >
        <span aria-hidden className="text-faint">
          {icons[item.tool] ?? <Wrench size={16} />}
        </span>
        <span className="shrink-0 font-medium">{printableLine(face.verb)}</span>
        <span className={`min-w-0 flex-1 truncate text-soft ${face.code ? 'font-mono text-[0.8125rem]' : ''}`}>
          {printableActionLine(clip(face.about, 300))}
        </span>
        {item.exitCode !== null && <span className="shrink-0 font-mono text-xs text-danger">exit {item.exitCode}</span>}
        {item.state === 'running' && elapsed !== null && (
          <span className="text-xs text-faint tabular-nums">{duration(elapsed)}</span>
        )}
        <span aria-hidden>{state.icon}</span>
        <span className="sr-only">{state.word}</span>
        <ChevronRight size={15} aria-hidden className={`text-faint transition-transform ${open || always ? 'rotate-90' : ''}`} />
      </button>
      {words !== '' && <p className="truncate border-t border-line px-3.5 py-2 text-sm text-faint">{printableLine(words)}</p>}
      {glimpse && face.body.kind === 'edits' && (
        <div className="border-t border-line">
          <Diff edits={face.body.edits} folded onMore={() => setOpen(true)} />
        </div>
      )}
      {(open || always) && (
        <div className="border-t border-line">
          <Body face={face} item={item} />
          {children.length > 0 && (
            <div className="grid grid-cols-1 gap-3 border-t border-line py-3 pr-3.5 pl-4">
              {children.map((child, index) => (
                <div key={index} className="border-l-2 border-line pl-3">
                  {child}
                </div>
              ))}
            </div>
          )}
          {open && !(saysAll.has(face.body.kind) && item.state === 'done') && <Output item={item} />}
        </div>
      )}
    </div>
  )
}

function Body({ face, item }: { readonly face: ToolFace; readonly item: ToolItem }) {
  const { body } = face
  switch (body.kind) {
    case 'command':
      return <Code bare text={printableAction(body.command)} language="bash" />
    case 'edits':
      return <Diff edits={body.edits} />
    case 'file':
      return <Code bare text={printable(body.text)} language={/\.(\w+)$/.exec(body.path)?.[1] ?? null} />
    case 'todos':
      return <Todos todos={body.todos} />
    case 'picture':
      return <ReadPicture path={body.path} />
    case 'agent':
      return body.prompt === '' ? null : (
        <div className="px-4 py-3 text-sm text-soft">
          <Markdown text={body.prompt} />
        </div>
      )
    case 'plain':
      return item.input === null || item.tool === 'Read' ? null : (
        <Code bare text={printable(JSON.stringify(item.input, null, 2) ?? '')} language="json" />
      )
  }
}

/** What a sub-agent is at, in a line. */
function lastWords({ thread }: ToolItem): string {
  const last = thread.at(-1)
  if (last === undefined) return ''
  if (last.kind === 'text' || last.kind === 'thinking') return last.text.slice(-200).trim().split('\n').at(-1) ?? ''
  if (last.kind !== 'tool') return ''
  const { verb, about } = toolFace(last)
  return clip(`${verb} ${about}`, 200)
}

function ReadPicture({ path }: { readonly path: string }) {
  const shelf = usePictureShelf()
  const found = shelf === null ? null : pictureInWorkspace(path, shelf.folder)
  if (shelf === null || found === null) return null
  return (
    <div className="p-3">
      <WorkspacePicture shelf={shelf} path={found} />
    </div>
  )
}

function Output({ item }: { readonly item: ToolItem }) {
  if (item.output === null || item.output === '') return null
  const text = printable(item.output)
  return (
    <div className={`relative border-t border-line ${item.state === 'failed' ? 'text-danger' : 'text-soft'}`}>
      <div tabIndex={0} role="region" aria-label="Output" className="scroll max-h-80 px-4 py-3 pr-11">
        <LongText text={text} mono />
        {item.truncated && <p className="mt-2 text-xs text-faint">The rest was not kept</p>}
      </div>
      <CopyButton text={text} name="Copy the output" className="absolute top-1.5 right-1.5 bg-surface/80" />
    </div>
  )
}
