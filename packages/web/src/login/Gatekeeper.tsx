import { type ReactNode, useEffect, useState } from 'react'
import { daemon, secretIn, wordsOf } from '../daemon.ts'
import { useConnection, useHouse } from '../live/house.ts'
import { Mark } from '../shell/Mark.tsx'
import { Button, CopyButton, Trouble } from '../ui/controls.tsx'

/** Lets in who is logged in. A login link carries its secret in the address; somebody without one is told how to get one. */
export function Gatekeeper({ secret, children }: { readonly secret: string | null; readonly children: ReactNode }) {
  const { goLive } = useHouse()
  const connection = useConnection()
  const [trouble, setTrouble] = useState<string | null>(null)
  const [entering, setEntering] = useState(secret !== null)

  const enter = async (with_: string) => {
    setEntering(true)
    setTrouble(null)
    try {
      await daemon.login({ body: { secret: with_ } })
    } catch (error) {
      setTrouble(wordsOf(error))
    }
    setEntering(false)
    // A link that was used already does no harm to who is logged in.
    goLive()
  }
  useEffect(() => {
    if (secret === null) goLive()
    else void enter(secret)
    // Once, with what the page was opened with.
  }, [])

  if (entering) return <Quiet>Logging in…</Quiet>
  if (connection === 'logged_out') return <Login trouble={trouble} enter={enter} />
  return children
}

function Quiet({ children }: { readonly children: ReactNode }) {
  return (
    <main className="grid h-full place-content-center justify-items-center gap-4 text-soft">
      <Mark size={56} />
      <p role="status">{children}</p>
    </main>
  )
}

const command = 'npx anchorhold login-link'

function Login({ trouble, enter }: { readonly trouble: string | null; readonly enter: (secret: string) => Promise<void> }) {
  const [text, setText] = useState('')
  const secret = secretIn(text)
  return (
    <main className="scroll grid h-full place-items-center p-6">
      <div className="w-full max-w-sm">
        <Mark size={56} />
        <h1 className="mt-6 text-3xl font-semibold tracking-tight">Anchorhold</h1>
        <p className="mt-2 text-soft">This device is not logged in. On the machine that runs Anchorhold, make a link for it:</p>
        <div className="mt-5 flex items-center justify-between gap-2 rounded-xl bg-raised py-1.5 pr-1.5 pl-4">
          <code className="font-mono text-sm">{command}</code>
          <CopyButton text={command} name="Copy the command" />
        </div>
        <form
          className="mt-6 grid gap-3"
          onSubmit={(event) => {
            event.preventDefault()
            if (secret !== null) void enter(secret)
          }}
        >
          <label className="grid gap-1.5 text-sm font-medium">
            Then open it here, or paste it
            <input
              className="field font-mono text-sm font-normal"
              value={text}
              onChange={(event) => setText(event.target.value)}
              placeholder="http://localhost:7777/#login=…"
              autoComplete="off"
              spellCheck={false}
            />
          </label>
          {trouble !== null && <Trouble>{trouble}</Trouble>}
          <Button type="submit" look="primary" disabled={secret === null}>
            Log in
          </Button>
        </form>
        <p className="mt-6 text-sm text-faint">
          A link works once, for fifteen minutes. This device stays logged in for seven days.
        </p>
      </div>
    </main>
  )
}
