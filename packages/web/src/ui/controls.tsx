import { Check, Copy } from 'lucide-react'
import { type ButtonHTMLAttributes, type ReactNode, useEffect, useId, useRef, useState } from 'react'
import type { Tone } from './faces.ts'

const looks = {
  primary:
    'bg-accent text-on-accent hover:bg-accent-press font-semibold disabled:bg-raised disabled:text-faint disabled:opacity-100',
  plain: 'bg-surface border border-line hover:bg-raised',
  ghost: 'text-soft hover:bg-raised hover:text-ink',
  danger: 'bg-danger-solid text-white font-semibold hover:brightness-110',
} as const

/** Every button is tall enough for a thumb. */
export function Button({
  look = 'plain',
  className = '',
  ...rest
}: ButtonHTMLAttributes<HTMLButtonElement> & { readonly look?: keyof typeof looks }) {
  return (
    <button
      type="button"
      className={`inline-flex min-h-11 items-center justify-center gap-2 rounded-xl px-4 text-[0.9375rem] transition-colors disabled:cursor-default disabled:opacity-50 ${looks[look]} ${className}`}
      {...rest}
    />
  )
}

const tones = {
  accent: 'bg-accent text-on-accent',
  good: 'bg-good-wash text-good',
  quiet: 'bg-raised text-soft',
  danger: 'bg-danger-solid text-white',
} as const satisfies Record<Tone, string>

export function Chip({
  tone,
  moving = false,
  title,
  children,
}: {
  readonly tone: Tone
  readonly moving?: boolean
  readonly title?: string
  readonly children: ReactNode
}) {
  return (
    <span
      title={title}
      className={`inline-flex h-6 shrink-0 items-center gap-1.5 rounded-full px-2.5 text-xs font-medium whitespace-nowrap ${tones[tone]}`}
    >
      {moving && <span aria-hidden className="working-dot size-1.5 rounded-full bg-current" />}
      {children}
    </span>
  )
}

export function CopyButton({ text, name = 'Copy', className = '' }: { text: string; name?: string; className?: string }) {
  const [copied, setCopied] = useState(false)
  useEffect(() => {
    if (!copied) return
    const timer = setTimeout(() => setCopied(false), 1500)
    return () => clearTimeout(timer)
  }, [copied])
  return (
    <button
      type="button"
      aria-label={copied ? 'Copied' : name}
      title={name}
      className={`inline-flex size-8 items-center justify-center rounded-lg text-faint hover:bg-raised hover:text-ink ${className}`}
      onClick={() => void navigator.clipboard.writeText(text).then(() => setCopied(true))}
    >
      {copied ? <Check size={15} aria-hidden /> : <Copy size={15} aria-hidden />}
    </button>
  )
}

/** A question before something that cannot be undone, or a small form. Closing it does nothing. */
export function Dialog({
  open,
  title,
  onClose,
  children,
}: {
  readonly open: boolean
  readonly title: string
  readonly onClose: () => void
  readonly children: ReactNode
}) {
  const ref = useRef<HTMLDialogElement>(null)
  const titleId = useId()
  useEffect(() => {
    const dialog = ref.current
    if (open && !dialog?.open) dialog?.showModal()
    if (!open && dialog?.open) dialog.close()
  }, [open])
  return (
    <dialog
      ref={ref}
      aria-labelledby={titleId}
      onClose={onClose}
      onClick={(event) => event.target === ref.current && onClose()}
      className="card w-[min(26rem,calc(100vw-2rem))] p-0 shadow-float max-sm:mb-4"
    >
      {open && (
        <div className="p-5">
          <h2 id={titleId} className="text-lg font-semibold tracking-tight">
            {title}
          </h2>
          {children}
        </div>
      )}
    </dialog>
  )
}

export type MenuEntry = {
  readonly label: string
  readonly icon?: ReactNode
  readonly danger?: boolean
  readonly onSelect: () => void
}

/** A menu behind a button: the platform's popover closes it, arrows move in it. */
export function Menu({
  name,
  icon,
  entries,
  className = '',
  up = false,
}: {
  readonly name: string
  readonly icon: ReactNode
  readonly entries: readonly MenuEntry[]
  readonly className?: string
  readonly up?: boolean
}) {
  const id = useId()
  const button = useRef<HTMLButtonElement>(null)
  const menu = useRef<HTMLDivElement>(null)
  const [open, setOpen] = useState(false)
  const items = () => [...(menu.current?.querySelectorAll<HTMLElement>('[role=menuitem]') ?? [])]

  const place = () => {
    const box = button.current?.getBoundingClientRect()
    const style = menu.current?.style
    if (box === undefined || style === undefined) return
    const left = box.left + box.width / 2 < innerWidth / 2
    style.left = left ? `${Math.max(8, box.left)}px` : 'auto'
    style.right = left ? 'auto' : `${Math.max(8, innerWidth - box.right)}px`
    style.top = up ? 'auto' : `${box.bottom + 6}px`
    style.bottom = up ? `${innerHeight - box.top + 6}px` : 'auto'
  }

  return (
    <>
      <button
        ref={button}
        type="button"
        aria-label={name}
        title={name}
        aria-haspopup="menu"
        aria-expanded={open}
        popoverTarget={id}
        className={`inline-flex size-11 shrink-0 items-center justify-center rounded-xl text-soft transition-colors hover:bg-raised hover:text-ink ${className}`}
      >
        {icon}
      </button>
      <div
        ref={menu}
        id={id}
        popover="auto"
        role="menu"
        aria-label={name}
        className="min-w-56 rounded-2xl border border-line bg-surface p-1.5 shadow-float"
        onBeforeToggle={(event) => event.newState === 'open' && place()}
        onToggle={(event) => {
          setOpen(event.newState === 'open')
          if (event.newState === 'open') items()[0]?.focus()
        }}
        onKeyDown={(event) => {
          const all = items()
          const at = all.indexOf(document.activeElement as HTMLElement)
          const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key]
          if (to === undefined) return
          event.preventDefault()
          all[(to + all.length) % all.length]?.focus()
        }}
      >
        {entries.map(({ label, icon, danger, onSelect }) => (
          <button
            key={label}
            type="button"
            role="menuitem"
            className={`flex min-h-11 w-full items-center gap-3 rounded-xl px-3 text-left text-[0.9375rem] hover:bg-raised focus:bg-raised focus:outline-none ${danger ? 'text-danger' : ''}`}
            onClick={() => {
              menu.current?.hidePopover()
              onSelect()
            }}
          >
            {icon !== undefined && (
              <span aria-hidden className="text-faint">
                {icon}
              </span>
            )}
            {label}
          </button>
        ))}
      </div>
    </>
  )
}

/** What went wrong with what somebody just did. */
export function Trouble({ children }: { readonly children: ReactNode }) {
  return (
    <p role="alert" className="rounded-xl bg-danger-wash px-4 py-3 text-sm text-danger">
      {children}
    </p>
  )
}

/** Shown where there is nothing to show. */
export function Empty({
  title,
  heading = false,
  children,
}: {
  readonly title: string
  /** It is all that the screen has. */
  readonly heading?: boolean
  readonly children?: ReactNode
}) {
  const Title = heading ? 'h1' : 'p'
  return (
    <div className="mx-auto flex max-w-sm flex-col items-center gap-2 px-6 py-20 text-center">
      <Title className="text-lg font-semibold tracking-tight">{title}</Title>
      <div className="text-[0.9375rem] text-soft">{children}</div>
    </div>
  )
}
