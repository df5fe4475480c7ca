import { printableLine } from '@anchorhold/core/printable'
import { passwordCharsMin, type Account } from '@anchorhold/protocol/api/login'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { KeyRound, Plus } from 'lucide-react'
import { useState } from 'react'
import { daemon, wordsOf } from '../daemon.ts'
import { canPasskey, makePasskey } from '../login/passkey.ts'
import { Button, Trouble } from '../ui/controls.tsx'
import { Field } from '../ui/Field.tsx'
import { ago } from '../ui/time.ts'
import { accountQuery } from './account-query.ts'
import { DevicesPanel } from './DevicesPanel.tsx'
import { SecondFactorPanel } from './SecondFactorPanel.tsx'
import { Panel, SettingsFrame } from './SettingsFrame.tsx'
import { RevokeAllPanel } from './RevokeAllPanel.tsx'
import { TokensPanel } from './TokensPanel.tsx'

/** One's own ways in, and the devices that are logged in. */
export function AccountPage() {
  const { data, error } = useQuery(accountQuery)
  return (
    <SettingsFrame title="Account, devices, tokens">
      {error !== null && <Trouble>{wordsOf(error)}</Trouble>}
      {data !== undefined && (
        <>
          <PasskeysPanel account={data} />
          <PasswordPanel account={data} />
          <SecondFactorPanel account={data} />
          <DevicesPanel devices={data.devices} />
          {data.user.role !== 'viewer' && (
            <>
              <TokensPanel user={data.user.name} />
              <RevokeAllPanel />
            </>
          )}
        </>
      )}
    </SettingsFrame>
  )
}

/** What all of these do: change something, and look again. */
function useChange<T>(change: () => Promise<T>) {
  const cache = useQueryClient()
  return useMutation({
    mutationFn: change,
    onSuccess: () => cache.invalidateQueries({ queryKey: accountQuery.queryKey }),
  })
}

function PasskeysPanel({ account: { passkeys } }: { readonly account: Account }) {
  const add = useChange(async () => daemon.addPasskey({ body: await makePasskey() }))
  return (
    <Panel
      title="Passkeys"
      about="The fingerprint, face or PIN of a device instead of a password. The quickest way in, with nothing to leak."
    >
      {passkeys.length > 0 && (
        <ul className="grid gap-1">
          {passkeys.map((passkey) => (
            <OnePasskey key={passkey.id} passkey={passkey} />
          ))}
        </ul>
      )}
      {canPasskey() ? (
        <Button
          look={passkeys.length === 0 ? 'primary' : 'plain'}
          className="justify-self-start"
          disabled={add.isPending}
          onClick={() => add.mutate()}
        >
          <Plus size={18} aria-hidden />
          Add a passkey
        </Button>
      ) : (
        <p className="text-sm text-faint">
          Passkeys do not work here: open it as http://localhost, or under a public URL with HTTPS.
        </p>
      )}
      {add.error !== null && <Trouble>{wordsOf(add.error)}</Trouble>}
    </Panel>
  )
}

function OnePasskey({ passkey: { id, name, site, created_at, used_at } }: { readonly passkey: Account['passkeys'][number] }) {
  const remove = useChange(() => daemon.removePasskey({ params: { id } }))
  const used = used_at === null ? `made ${ago(created_at, Date.now())}` : `used ${ago(used_at, Date.now())}`
  return (
    <li className="flex min-h-12 items-center gap-3">
      <KeyRound size={18} aria-hidden className="shrink-0 text-faint" />
      <span className="min-w-0 flex-1">
        <span className="block truncate">{printableLine(name)}</span>
        <span className="block truncate text-sm text-faint">
          {printableLine(site)} · {used}
        </span>
        {remove.error !== null && <Trouble>{wordsOf(remove.error)}</Trouble>}
      </span>
      <Button
        look="ghost"
        aria-label={`Remove the passkey ${printableLine(name)}`}
        disabled={remove.isPending}
        onClick={() => remove.mutate()}
      >
        Remove
      </Button>
    </li>
  )
}

function PasswordPanel({ account: { user, password: has } }: { readonly account: Account }) {
  const [password, setPassword] = useState('')
  const set = useChange(async () => {
    await daemon.setPassword({ params: { name: user.name }, body: { password } })
    setPassword('')
  })
  const remove = useChange(() => daemon.removePassword())
  const failed = set.error ?? remove.error
  return (
    <Panel title="Password" about={has ? 'One is set.' : 'None is set: nobody can log in with a password.'}>
      <form
        className="grid gap-4"
        onSubmit={(event) => {
          event.preventDefault()
          set.mutate()
        }}
      >
        <input type="text" hidden readOnly autoComplete="username" value={user.name} />
        <Field label={has ? 'New password' : 'Password'} hint={`At least ${passwordCharsMin} characters`}>
          <input
            className="field"
            type="password"
            value={password}
            onChange={(event) => setPassword(event.target.value)}
            autoComplete="new-password"
          />
        </Field>
        {failed !== null && <Trouble>{wordsOf(failed)}</Trouble>}
        {set.isSuccess && password === '' && (
          <p role="status" className="text-sm text-good">
            It is set.
          </p>
        )}
        <div className="flex flex-wrap gap-2">
          <Button type="submit" disabled={password.length < passwordCharsMin || set.isPending}>
            {has ? 'Change the password' : 'Set the password'}
          </Button>
          {has && (
            <Button look="ghost" disabled={remove.isPending} onClick={() => remove.mutate()}>
              Remove it
            </Button>
          )}
        </div>
      </form>
    </Panel>
  )
}
