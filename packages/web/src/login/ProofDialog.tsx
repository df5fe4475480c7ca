import { useMutation, useQuery } from '@tanstack/react-query'
import { KeyRound } from 'lucide-react'
import { useState } from 'react'
import { daemon, wordsOf } from '../daemon.ts'
import { accountQuery } from '../settings/account-query.ts'
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
  const [password, setPassword] = useState('')
  const [code, setCode] = useState('')
  const prove = useMutation({
    mutationFn: () => daemon.proveByPassword({ body: { password, ...(totp ? { code } : {}) } }),
    onSuccess: onProved,
  })
  return (
    <form
      className="grid gap-3"
      onSubmit={(event) => {
        event.preventDefault()
        prove.mutate()
      }}
    >
      <label className="grid gap-1.5 text-sm font-medium">
        Password
        <input
          autoFocus={!quiet}
          className="field font-normal"
          type="password"
          value={password}
          onChange={(event) => setPassword(event.target.value)}
          autoComplete="current-password"
        />
      </label>
      {totp && (
        <label className="grid gap-1.5 text-sm font-medium">
          Code, or a recovery code
          <input
            className="field font-mono font-normal"
            value={code}
            onChange={(event) => setCode(event.target.value)}
            autoComplete="one-time-code"
            spellCheck={false}
          />
        </label>
      )}
      {prove.error !== null && <Trouble>{wordsOf(prove.error)}</Trouble>}
      <Button
        type="submit"
        look={quiet ? 'plain' : 'primary'}
        disabled={password === '' || (totp && code.trim().length < 6) || prove.isPending}
      >
        Go on with the password
      </Button>
    </form>
  )
}
