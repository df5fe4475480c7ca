import { useMutation, useQuery } from '@tanstack/react-query'
import { KeyRound } from 'lucide-react'
import { daemon, wordsOf } from '../daemon.ts'
import { accountQuery } from '../settings/account-query.ts'
import { AskForm, codeField, isCode, passwordField } from '../ui/AskForm.tsx'
import { Button, Dialog, Trouble } from '../ui/controls.tsx'
import { LinkForm } from './LinkForm.tsx'
import { canPasskey, showPasskey } from './passkey.ts'

/** Who sits here shows again who they are; what they were about to do then goes on by itself. */
export function ProofDialog({ why, onClose }: { readonly why: string; readonly onClose: (proved: boolean) => void }) {
  const { data, error } = useQuery(accountQuery)
  const byPasskey = canPasskey() && data?.passkeys.some(({ site }) => site === location.hostname) === true
  const passkey = useMutation({
    mutationFn: async () => daemon.proveByPasskey({ body: await showPasskey() }),
    onSuccess: () => onClose(true),
  })
  return (
    <Dialog open title="Is it you?" onClose={() => onClose(false)}>
      <p className="mt-2 text-sm text-soft">{why}.</p>
      <div className="mt-5 grid gap-4">
        {error !== null && <Trouble>{wordsOf(error)}</Trouble>}
        {byPasskey && (
          <Button autoFocus look="primary" disabled={passkey.isPending} onClick={() => passkey.mutate()}>
            <KeyRound size={18} aria-hidden />
            Use a passkey
          </Button>
        )}
        {passkey.error !== null && <Trouble>{wordsOf(passkey.error)}</Trouble>}
        {data?.password === true && <PasswordProof quiet={byPasskey} totp={data.totp} onProved={() => onClose(true)} />}
        {data !== undefined && !byPasskey && !data.password && <LinkForm trouble={null} onEntered={() => onClose(true)} />}
        <Button look="ghost" onClick={() => onClose(false)}>
          Cancel
        </Button>
      </div>
    </Dialog>
  )
}

function PasswordProof({
  quiet,
  totp,
  onProved,
}: {
  readonly quiet: boolean
  readonly totp: boolean
  readonly onProved: () => void
}) {
  return (
    <AskForm
      fields={{ password: { ...passwordField, autoFocus: !quiet }, ...(totp ? { code: codeField } : {}) }}
      action="Continue with the password"
      quiet={quiet}
      isReady={(values) => values.password !== '' && (!totp || isCode(values.code))}
      send={(values) => daemon.proveByPassword({ body: { password: values.password, ...(totp ? { code: values.code } : {}) } })}
      onDone={onProved}
    />
  )
}
