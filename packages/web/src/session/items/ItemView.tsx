import { printable } from '@anchorhold/core/printable'
import { isFailure } from '@anchorhold/protocol/failures'
import { formatUsd } from '@anchorhold/protocol/money'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { TurnEnd } from '@anchorhold/protocol/sessions'
import { useMutation, useMutationState, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Brain, ChevronRight, GitFork, X } from 'lucide-react'
import { memo } from 'react'
import { daemon, wordsOf } from '../../daemon.ts'
import { putSession } from '../../live/apply.ts'
import type { Item, NoteItem, PromptItem, TurnItem, WordsItem } from '../../log/fold.ts'
import { RequestCard } from '../../requests/RequestCard.tsx'
import { picturesMentioned } from '../../log/workspace-path.ts'
import { CopyButton } from '../../ui/controls.tsx'
import { Markdown } from '../../ui/Markdown.tsx'
import { LongText } from '../../ui/LongText.tsx'
import { clockTime, duration } from '../../ui/time.ts'
import { usePictureShelf, WorkspacePicture } from '../../ui/WorkspacePicture.tsx'
import { ChecklistView } from './ChecklistView.tsx'
import { ToolView } from './ToolView.tsx'

export type ItemProps = {
  readonly session: SessionId
  readonly item: Item
  /** Where it is given, a fork may begin after this item. */
  readonly onFork: ((seq: number) => void) | null
}

/** One thing in a conversation. */
export const ItemView = memo(function ItemView({ session, item, onFork }: ItemProps) {
  switch (item.kind) {
    case 'prompt':
      return <StoredPrompt session={session} item={item} />
    case 'text':
      return <TextView item={item} />
    case 'thinking':
      return <ThinkingView text={item.text} growing={item.growing ?? false} />
    case 'tool':
      return (
        <ToolView item={item} session={session}>
          {item.thread.map((one) => (
            <ItemView key={one.key} session={session} item={one} onFork={null} />
          ))}
        </ToolView>
      )
    case 'request':
      return (
        <RequestCard
          id={item.id}
          action={item.action}
          why={item.why}
          rule={item.rule}
          deferred={item.deferred}
          settled={item.answer === null ? null : { answer: item.answer, by: item.by }}
        />
      )
    case 'checklist':
      return <ChecklistView todos={item.todos} />
    case 'turn':
      return <TurnView item={item} onFork={onFork} />
    case 'note':
      return <NoteView item={item} />
  }
})

export function PromptView({ item }: { readonly item: Pick<PromptItem, 'text' | 'images' | 'queued' | 'at'> }) {
  const shelf = usePictureShelf()
  return (
    <div className="group/said flex flex-col items-end gap-1 pl-10">
      <div
        className={`max-w-full rounded-3xl rounded-br-lg px-4 py-2.5 [overflow-wrap:anywhere] ${item.queued === null ? 'bg-raised' : 'border border-dashed border-line-strong text-soft'}`}
      >
        <LongText text={printable(item.text)} />
        {item.images > 0 && (
          <p className="text-[0.8125rem] text-faint">{item.images === 1 ? 'with a picture' : `with ${item.images} pictures`}</p>
        )}
      </div>
      {shelf !== null &&
        picturesMentioned(item.text, shelf.folder).map((path) => <WorkspacePicture key={path} shelf={shelf} path={path} />)}
      <p className="flex items-center gap-1 text-xs text-faint">
        {item.queued === 'queue'
          ? 'Queued: sent when the turn ends'
          : item.queued === 'steer'
            ? 'On its way to the agent'
            : clockTime(item.at)}
      </p>
    </div>
  )
}

/** A prompt that the daemon has. While it waits for its turn it can be taken back; one that the agent was given meanwhile says so. */
function StoredPrompt({ session, item }: { readonly session: SessionId; readonly item: PromptItem }) {
  const cache = useQueryClient()
  // By name: a prompt that is delivered meanwhile moves to another row, and what came of the tap is told there.
  const mutationKey = ['drop', item.id]
  const drop = useMutation({
    mutationKey,
    mutationFn: () => daemon.dropPrompt({ params: { id: session, prompt: item.id } }),
    onSuccess: (row) => putSession(cache, row),
  })
  const last = useMutationState({ filters: { mutationKey }, select: ({ state }) => state }).at(-1)
  const error = last?.error ?? null
  const late = error !== null && isFailure(error) && error.code === 'conflict'
  return (
    <div className="grid justify-items-end gap-1">
      <div className="w-full">
        <PromptView item={item} />
      </div>
      {item.queued !== null && (
        <button
          type="button"
          disabled={last?.status === 'pending'}
          onClick={() => drop.mutate()}
          className="-mr-2 inline-flex min-h-9 items-center gap-1.5 rounded-lg px-2 text-xs text-soft hover:bg-raised hover:text-ink disabled:opacity-50"
        >
          <X size={14} aria-hidden />
          Withdraw
        </button>
      )}
      {error !== null && (
        <p role="alert" className="text-xs text-danger [overflow-wrap:anywhere]">
          {late ? 'Too late to withdraw it: the agent has it' : wordsOf(error)}
        </p>
      )}
    </div>
  )
}

function TextView({ item }: { readonly item: WordsItem }) {
  return (
    <div className={item.cut === 'superseded' ? 'opacity-60' : ''}>
      <Markdown text={item.text} growing={item.growing ?? false} />
      {item.cut !== null && (
        <p className="mt-1 text-xs text-faint">{item.cut === 'partial' ? 'Cut off here' : 'Cut off, and repeated below'}</p>
      )}
    </div>
  )
}

function ThinkingView({ text, growing }: { readonly text: string; readonly growing: boolean }) {
  return (
    <details className="group/think">
      <summary className="-ml-2 inline-flex min-h-9 items-center gap-2 rounded-lg px-2 text-sm text-faint hover:text-ink">
        <Brain size={15} aria-hidden className={growing ? 'working-dot' : ''} />
        {growing ? 'Thinking…' : 'Thought'}
        <ChevronRight size={14} aria-hidden className="transition-transform group-open/think:rotate-90" />
      </summary>
      <div className="border-l-2 border-line py-1 pl-4 text-[0.9375rem] text-soft">
        <Markdown text={text} />
      </div>
    </details>
  )
}

const turnWords = {
  done: 'Done',
  interrupted: 'Stopped',
  waiting: 'Waiting for an answer',
  budget: 'The budget is spent',
  breaker: 'Stopped: it was going in circles',
  error: 'Ended by an error',
  crashed: 'Cut short',
} as const satisfies Record<TurnEnd, string>

function TurnView({ item, onFork }: { readonly item: TurnItem; readonly onFork: ItemProps['onFork'] }) {
  const bad = item.reason !== 'done' && item.reason !== 'interrupted' && item.reason !== 'waiting'
  return (
    <div className="flex flex-wrap items-center gap-x-3 gap-y-1 pt-1 text-xs text-faint">
      <span className={bad ? 'font-medium text-danger' : ''}>{turnWords[item.reason]}</span>
      <span>{duration(item.durationMs)}</span>
      <span>
        {formatUsd(item.costMicros)}
        {item.simulated && ' of play money'}
      </span>
      {item.said !== null && <CopyButton text={item.said} name="Copy what was said" className="-mx-2" />}
      {onFork !== null && (
        <button
          type="button"
          className="inline-flex min-h-8 items-center gap-1.5 rounded-lg px-2 hover:bg-raised hover:text-ink"
          onClick={() => onFork(item.seq)}
        >
          <GitFork size={13} aria-hidden />
          Fork from here
        </button>
      )}
      {item.why !== null && item.reason !== 'done' && (
        <p className={`w-full text-sm [overflow-wrap:anywhere] ${bad ? 'text-danger' : ''}`}>{printable(item.why)}</p>
      )}
    </div>
  )
}

const noteLooks = {
  info: 'text-faint',
  warning: 'text-accent-ink',
  error: 'text-danger',
} as const satisfies Record<NoteItem['level'], string>

function NoteView({ item: { level, text, of } }: { readonly item: NoteItem }) {
  return (
    <p className={`text-[0.8125rem] [overflow-wrap:anywhere] ${noteLooks[level]}`}>
      {printable(text)}
      {of !== undefined && (
        <>
          .{' '}
          <Link
            to="/sessions/$id"
            params={{ id: of.session }}
            search={of.at === null ? {} : { at: of.at }}
            className="inline-flex min-h-6 items-center rounded text-soft underline underline-offset-4 hover:text-ink"
          >
            Read it there
          </Link>
        </>
      )}
    </p>
  )
}
