import { mayDo } from '@anchorhold/core/session-states'
import type { PromptMode, Session } from '@anchorhold/protocol/sessions'
import { useMutation, useQuery } from '@tanstack/react-query'
import { ArrowUp, Square } from 'lucide-react'
import { useEffect, useId, useRef, useState } from 'react'
import { flushSync } from 'react-dom'
import { daemon, wordsOf } from '../daemon.ts'
import { useDraft, useHouse } from '../live/house.ts'
import { completionsQuery } from '../live/queries.ts'
import { waitingMax } from '../outbox/outbox.ts'
import { Trouble } from '../ui/controls.tsx'
import { AttachButton, useUploads } from './Attach.tsx'
import { Choices } from './Choices.tsx'
import { type Choice, choicesFor, completed, writingAt } from './completion.ts'

/** Whoever has a mouse has an Enter key that sends; a thumb has a button. */
const hasKeyboard = matchMedia('(pointer: fine)').matches

const modes = [
  { mode: 'steer', label: 'Steer', about: 'Reaches the agent at its next step' },
  { mode: 'queue', label: 'Queue', about: 'Waits until the turn ends' },
] as const satisfies readonly { mode: PromptMode; label: string; about: string }[]

/** Where the next prompt is written. */
export function Composer({ session }: { readonly session: Session }) {
  const { outbox, drafts } = useHouse()
  const [text, setText] = useDraft(session.id)
  const [mode, setMode] = useState<PromptMode>('steer')
  const [full, setFull] = useState(false)
  const warmed = useRef(false)
  const busy = session.state === 'working' || session.state === 'waiting'
  const stop = useMutation({ mutationFn: () => daemon.interrupt({ params: { id: session.id } }) })
  const field = useRef<HTMLTextAreaElement>(null)
  const listId = useId()
  const [caret, setCaret] = useState(0)
  const [picked, setPicked] = useState(0)
  const [waved, setWaved] = useState<number | null>(null)
  const writing = writingAt(text, caret)
  const wanted = writing !== null && waved !== writing.from
  const { data: known } = useQuery(completionsQuery(session, wanted && mayDo(session.state, 'enter')))
  const choices = wanted && known !== undefined ? choicesFor(writing, { ...known, files: known.files.names }) : []
  const at = Math.min(picked, choices.length - 1)
  const choose = (choice: Choice) => {
    const done = completed(text, caret, writing!, choice)
    // The caret moves with the text: moved a frame later, it would take along what was typed by then.
    flushSync(() => {
      change(done.text)
      setCaret(done.caret)
      setPicked(0)
    })
    field.current?.setSelectionRange(done.caret, done.caret)
  }
  const {
    upload,
    trouble,
    busy: uploading,
  } = useUploads(session.id, (path) => {
    // Who has gone elsewhere meanwhile finds it in what they had begun to write.
    const now = drafts.read(session.id)
    change(`${now}${now === '' || /\s$/.test(now) ? '' : ' '}@${path} `)
  })
  const ready = text.trim() !== '' && mayDo(session.state, 'prompt')

  const change = (value: string) => {
    setText(value)
    // Cell and agent start while the prompt is being written.
    if (warmed.current || value === '' || !mayDo(session.state, 'warm')) return
    warmed.current = true
    void daemon.warm({ params: { id: session.id } }).catch(() => {})
  }
  const send = () => {
    if (!ready || uploading) return
    const taken = outbox.add(session.id, text.trim(), mode)
    setFull(!taken)
    if (!taken) return
    change('')
    setCaret(0)
    setWaved(null)
    warmed.current = false
  }
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key !== '.' || !(event.ctrlKey || event.metaKey) || !busy) return
      event.preventDefault()
      stop.mutate()
    }
    addEventListener('keydown', press)
    return () => removeEventListener('keydown', press)
  }, [busy, session.id])

  return (
    <form
      className="safe-bottom px-3 pb-3 sm:px-6"
      onSubmit={(event) => {
        event.preventDefault()
        send()
      }}
    >
      <div className="mx-auto grid w-full max-w-3xl gap-2">
        {stop.error !== null && <Trouble>{wordsOf(stop.error)}</Trouble>}
        {busy && text !== '' && (
          <div role="group" aria-label="When to send it" className="flex justify-self-end rounded-full bg-raised p-0.5">
            {modes.map((one) => (
              <button
                key={one.mode}
                type="button"
                title={one.about}
                aria-pressed={mode === one.mode}
                onClick={() => setMode(one.mode)}
                className="min-h-9 rounded-full px-3.5 text-[0.8125rem] font-medium text-soft aria-pressed:bg-ink aria-pressed:text-page"
              >
                {one.label}
              </button>
            ))}
          </div>
        )}
        {full && (
          <Trouble>
            Not sent: {waitingMax} prompts wait on this device already. Discard some, or wait until they are sent.
          </Trouble>
        )}
        {trouble !== null && <Trouble>{trouble}</Trouble>}
        {choices.length > 0 && <Choices id={listId} choices={choices} at={at} onChoose={choose} />}
        <div
          onDragOver={(event) => event.preventDefault()}
          onDrop={(event) => {
            event.preventDefault()
            void upload([...event.dataTransfer.files])
          }}
          className="card flex items-end gap-1 !rounded-[1.75rem] p-1.5 shadow-card focus-within:border-line-strong"
        >
          <AttachButton busy={uploading} onFiles={(files) => void upload(files)} />
          <textarea
            ref={field}
            aria-label="Prompt"
            aria-autocomplete="list"
            aria-controls={choices.length > 0 ? listId : undefined}
            aria-activedescendant={choices.length > 0 ? `${listId}-${at}` : undefined}
            rows={1}
            value={text}
            onChange={(event) => {
              change(event.target.value)
              setCaret(event.target.selectionStart)
              setPicked(0)
            }}
            onSelect={(event) => setCaret(event.currentTarget.selectionStart)}
            onPaste={(event) => {
              if (event.clipboardData.files.length === 0) return
              event.preventDefault()
              void upload([...event.clipboardData.files])
            }}
            onKeyDown={(event) => {
              if (choices.length > 0 && !event.nativeEvent.isComposing) {
                const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
                if (step !== undefined) setPicked((at + step + choices.length) % choices.length)
                else if (event.key === 'Escape') setWaved(writing!.from)
                else if (event.key === 'Tab' || (event.key === 'Enter' && !event.shiftKey)) choose(choices[at]!)
                else return
                event.preventDefault()
                return
              }
              const sends = event.key === 'Enter' && !event.shiftKey && (hasKeyboard || event.ctrlKey || event.metaKey)
              if (!sends || event.nativeEvent.isComposing) return
              event.preventDefault()
              send()
            }}
            placeholder={session.state === 'waiting' ? 'Or say something else…' : busy ? 'Say something…' : 'What next?'}
            className="max-h-[35vh] min-h-11 min-w-0 flex-1 resize-none bg-transparent py-2.5 pr-2 pl-1 leading-normal placeholder:text-faint focus:outline-none"
          />
          {busy && (
            <button
              type="button"
              aria-label="Stop the turn"
              title="Stop the turn (Ctrl .)"
              disabled={stop.isPending}
              onClick={() => stop.mutate()}
              className="grid size-11 shrink-0 place-items-center rounded-full border border-line text-ink hover:bg-raised disabled:opacity-50"
            >
              <Square size={15} aria-hidden fill="currentColor" />
            </button>
          )}
          <button
            type="submit"
            aria-label="Send"
            disabled={!ready || uploading}
            className="grid size-11 shrink-0 place-items-center rounded-full bg-accent text-on-accent transition-colors hover:bg-accent-press disabled:bg-raised disabled:text-faint"
          >
            <ArrowUp size={20} aria-hidden />
          </button>
        </div>
      </div>
    </form>
  )
}
