import { printableLine } from '@anchorhold/core/printable'
import type { Session } from '@anchorhold/protocol/sessions'
import { useCallback, useRef, useState } from 'react'
import { proof } from '../../daemon.ts'
import { Button } from '../../ui/controls.tsx'
import { openTerminal, type TerminalState } from './terminal.ts'

const words = {
  opening: 'Opening a shell in the cell…',
  open: 'A shell in the cell, as the agent’s own user. Type no secret here.',
  lost: 'Connection lost; the shell keeps running. Reconnecting…',
  refused: 'The terminal could not be opened.',
  ended: '',
} as const satisfies Record<TerminalState['is'], string>

/** A shell of one's own in the session's cell. */
export function TerminalTab({ session }: { readonly session: Session }) {
  const bare = session.rung === 'none'
  const [state, setState] = useState<TerminalState>({ is: 'opening' })
  const [count, setCount] = useState(0)
  const terminal = useRef<ReturnType<typeof openTerminal> | null>(null)
  const place = useCallback(
    (element: HTMLDivElement | null) => {
      if (element === null) return
      const opened = openTerminal({
        session: session.id,
        element,
        tell: setState,
        prove: bare ? () => proof.ask('A terminal without a wall needs a fresh proof of who you are') : null,
      })
      terminal.current = opened
      return () => opened.leave()
    },
    [session.id, bare, count],
  )
  const over = state.is === 'ended' || state.is === 'refused'
  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <div className="flex min-h-11 items-center gap-2 px-4 py-1.5 text-xs text-faint lg:px-6">
        <p role="status" className="min-w-0 flex-1 [overflow-wrap:anywhere]">
          {state.is === 'ended' || state.is === 'refused' ? printableLine(state.why) : words[state.is]}
        </p>
        {over ? (
          <Button onClick={() => setCount(count + 1)}>Open another</Button>
        ) : (
          <Button look="ghost" disabled={state.is !== 'open'} onClick={() => terminal.current?.close()}>
            End the shell
          </Button>
        )}
      </div>
      <Keys send={(text) => terminal.current?.type(text)} />
      <div ref={place} key={count} className="terminal safe-bottom min-h-0 flex-1 overflow-hidden px-2 pb-2 lg:px-5" />
    </div>
  )
}

/** What a phone's keyboard has not got. */
const keys = [
  { name: 'Esc', text: '\x1b' },
  { name: 'Tab', text: '\t' },
  { name: 'Ctrl C', text: '\x03' },
  { name: 'Ctrl D', text: '\x04' },
  { name: '↑', text: '\x1b[A' },
  { name: '↓', text: '\x1b[B' },
] as const

function Keys({ send }: { readonly send: (text: string) => void }) {
  return (
    <div role="group" aria-label="Keys" className="flex gap-1 overflow-x-auto px-2 pb-1.5 [scrollbar-width:none] lg:hidden">
      {keys.map(({ name, text }) => (
        <button
          key={name}
          type="button"
          className="min-h-11 min-w-11 shrink-0 rounded-xl bg-raised px-3 font-mono text-[0.8125rem] text-soft"
          onClick={() => send(text)}
        >
          {name}
        </button>
      ))}
    </div>
  )
}
