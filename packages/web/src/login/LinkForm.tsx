import { daemon, secretIn } from '../daemon.ts'
import { AskForm } from '../ui/AskForm.tsx'
import { CopyButton } from '../ui/controls.tsx'

const command = 'npx anchorhold login-link'

/** A link that was made on the machine, pasted here. */
export function LinkForm({ trouble, onEntered }: { readonly trouble: string | null; readonly onEntered: () => void }) {
  return (
    <AskForm
      fields={{
        link: {
          label: 'Then open it here, or paste it',
          placeholder: 'http://localhost:7777/#login=…',
          autoComplete: 'off',
          mono: true,
        },
      }}
      action="Log in"
      isReady={({ link }) => secretIn(link) !== null}
      send={({ link }) => daemon.login({ body: { secret: secretIn(link) ?? '' } })}
      onDone={onEntered}
      trouble={trouble}
    >
      <p className="text-sm text-soft">On the machine that runs Anchorhold, make a link for this device:</p>
      <div className="flex items-center justify-between gap-2 rounded-xl bg-raised py-1.5 pr-1.5 pl-4">
        <code className="font-mono text-sm">{command}</code>
        <CopyButton text={command} name="Copy the command" />
      </div>
    </AskForm>
  )
}
