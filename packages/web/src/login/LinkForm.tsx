import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { daemon, secretIn, wordsOf } from '../daemon.ts'
import { Button, CopyButton, Trouble } from '../ui/controls.tsx'

const command = 'npx anchorhold login-link'

/** A link that was made on the machine, pasted here. */
export function LinkForm({ trouble, onEntered }: { readonly trouble: string | null; readonly onEntered: () => void }) {
  const [text, setText] = useState('')
  const secret = secretIn(text)
  const enter = useMutation({
    mutationFn: (secret_: string) => daemon.login({ body: { secret: secret_ } }),
    onSuccess: onEntered,
  })
  const wrong = enter.error === null ? trouble : wordsOf(enter.error)
  return (
    <div className="grid gap-4">
      <p className="text-sm text-soft">On the machine that runs Anchorhold, make a link for this device:</p>
      <div className="flex items-center justify-between gap-2 rounded-xl bg-raised py-1.5 pr-1.5 pl-4">
        <code className="font-mono text-sm">{command}</code>
        <CopyButton text={command} name="Copy the command" />
      </div>
      <form
        className="grid gap-3"
        onSubmit={(event) => {
          event.preventDefault()
          if (secret !== null) enter.mutate(secret)
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
        {wrong !== null && <Trouble>{wrong}</Trouble>}
        <Button type="submit" look="primary" disabled={secret === null || enter.isPending}>
          Log in
        </Button>
      </form>
    </div>
  )
}
