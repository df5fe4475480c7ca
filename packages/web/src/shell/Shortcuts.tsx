import { useNavigate } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { Dialog } from '../ui/controls.tsx'
import { lettersAreKeys } from './device.ts'

const help = [
  ['/', 'Search'],
  ['n', 'New session'],
  ['i', 'Inbox'],
  ['u', 'Usage'],
  ['s', 'Settings'],
  ['j  k', 'Next, previous session'],
  ['Enter', 'Send'],
  ['Shift Enter', 'New line'],
  ['Ctrl .', 'Stop the turn'],
  ['?', 'This list'],
] as const

/** Opens the list of keys from anywhere. */
export const openShortcuts = () => dispatchEvent(new Event('anchorhold:shortcuts'))

/** Keys for those who have them. Nothing can be done by a key alone. */
export function Shortcuts() {
  const navigate = useNavigate()
  const [open, setOpen] = useState(false)
  useEffect(() => {
    const show = () => setOpen(true)
    const press = (event: KeyboardEvent) => {
      const { target, key } = event
      const typing =
        target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
      if (
        !lettersAreKeys() ||
        typing ||
        event.ctrlKey ||
        event.metaKey ||
        event.altKey ||
        document.querySelector('dialog[open]') !== null
      )
        return
      const act = {
        '/': () => document.querySelector<HTMLInputElement>('input[type=search]')?.focus(),
        n: () => void navigate({ to: '/new' }),
        i: () => void navigate({ to: '/inbox' }),
        u: () => void navigate({ to: '/usage' }),
        s: () => void navigate({ to: '/settings' }),
        j: () => step(1),
        k: () => step(-1),
        '?': show,
      }[key]
      if (act === undefined) return
      event.preventDefault()
      act()
    }
    addEventListener('keydown', press)
    addEventListener('anchorhold:shortcuts', show)
    return () => {
      removeEventListener('keydown', press)
      removeEventListener('anchorhold:shortcuts', show)
    }
  }, [navigate])
  return (
    <Dialog open={open} title="Keyboard shortcuts" onClose={() => setOpen(false)}>
      <dl className="mt-4 grid grid-cols-[auto_1fr] items-center gap-x-6 gap-y-2.5 text-[0.9375rem]">
        {help.map(([key, what]) => (
          <div key={key} className="contents">
            <dt>
              <kbd className="rounded-lg bg-raised px-2 py-1 font-mono text-xs">{key}</kbd>
            </dt>
            <dd className="text-soft">{what}</dd>
          </div>
        ))}
      </dl>
      <p className="mt-5 text-sm text-faint">Single letters can be switched off in the settings, under “This device”.</p>
    </Dialog>
  )
}

function step(by: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLAnchorElement>('[data-row]')]
  const at = rows.findIndex((row) => row.getAttribute('aria-current') === 'page')
  const to = rows[at === -1 ? 0 : Math.min(rows.length - 1, Math.max(0, at + by))]
  to?.click()
  to?.focus()
}
