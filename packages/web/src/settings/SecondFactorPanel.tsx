import type { Account } from '@anchorhold/protocol/api/login'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { daemon, wordsOf } from '../daemon.ts'
import { AskForm, isCode } from '../ui/AskForm.tsx'
import { Button, CopyButton, Trouble } from '../ui/controls.tsx'
import { accountQuery } from './account-query.ts'
import { Panel } from './SettingsFrame.tsx'

/** A code beside the password. Passkeys need none: they are two factors already. */
export function SecondFactorPanel({ account: { totp, recovery_codes: left } }: { readonly account: Account }) {
  const cache = useQueryClient()
  const [codes, setCodes] = useState<readonly string[] | null>(null)
  const changed = () => cache.invalidateQueries({ queryKey: accountQuery.queryKey })
  const offer = useMutation({ mutationFn: () => daemon.offerTotp() })
  const remove = useMutation({ mutationFn: () => daemon.removeTotp(), onSuccess: changed })
  const failed = offer.error ?? remove.error
  return (
    <Panel
      title="Authenticator"
      about={
        totp
          ? `Logging in with the password also needs a code from your authenticator. Recovery codes left: ${left}.`
          : 'A code from an app on your phone, asked for with the password.'
      }
    >
      {codes !== null && <RecoveryCodes codes={codes} onDone={() => setCodes(null)} />}
      {failed !== null && <Trouble>{wordsOf(failed)}</Trouble>}
      {totp ? (
        codes === null && (
          <Button className="justify-self-start" disabled={remove.isPending} onClick={() => remove.mutate()}>
            Switch it off
          </Button>
        )
      ) : offer.data === undefined ? (
        <Button className="justify-self-start" disabled={offer.isPending} onClick={() => offer.mutate()}>
          Set it up
        </Button>
      ) : (
        <Setup
          {...offer.data}
          onDone={(made) => {
            setCodes(made)
            offer.reset()
            void changed()
          }}
          onCancel={() => offer.reset()}
        />
      )}
    </Panel>
  )
}

function Setup({
  ticket,
  secret,
  uri,
  onDone,
  onCancel,
}: {
  readonly ticket: string
  readonly secret: string
  readonly uri: string
  readonly onDone: (codes: readonly string[]) => void
  readonly onCancel: () => void
}) {
  return (
    <AskForm
      fields={{
        code: { label: 'The code that it shows now', inputMode: 'numeric', autoComplete: 'one-time-code', mono: true },
      }}
      action="Switch it on"
      isReady={({ code }) => isCode(code)}
      send={({ code }) => daemon.confirmTotp({ body: { ticket, code } })}
      onDone={({ recovery_codes }) => onDone(recovery_codes)}
      beside={<Button onClick={onCancel}>Cancel</Button>}
    >
      <p className="text-sm text-soft">
        Scan this with the app,{' '}
        <a className="underline underline-offset-4" href={uri}>
          open it there
        </a>
        , or type the key.
      </p>
      <QrCode text={uri} />
      <p className="flex items-center justify-between gap-2 rounded-xl bg-raised py-1.5 pr-1.5 pl-4">
        <code className="min-w-0 font-mono text-sm [overflow-wrap:anywhere]">{secret.match(/.{1,4}/g)?.join(' ')}</code>
        <CopyButton text={secret} name="Copy the key" />
      </p>
    </AskForm>
  )
}

function RecoveryCodes({ codes, onDone }: { readonly codes: readonly string[]; readonly onDone: () => void }) {
  return (
    <div role="status" className="grid gap-3 rounded-xl bg-raised p-4">
      <p className="text-sm">
        Keep these somewhere safe. Each lets you in once if you lose the phone, and they are not shown again.
      </p>
      <ul className="grid gap-x-6 gap-y-1 font-mono text-sm sm:grid-cols-2">
        {codes.map((code) => (
          <li key={code}>{code}</li>
        ))}
      </ul>
      <div className="flex items-center gap-2">
        <Button onClick={onDone}>I have saved them</Button>
        <CopyButton text={codes.join('\n')} name="Copy the recovery codes" />
      </div>
    </div>
  )
}

/** Drawn here from its squares: no picture is fetched, and the key goes nowhere. */
function QrCode({ text }: { readonly text: string }) {
  const { data } = useQuery({
    queryKey: ['qr', text],
    queryFn: async () => (await import('uqr')).encode(text, { border: 2 }),
    gcTime: 0,
  })
  if (data === undefined) return <div className="size-48" />
  const squares = data.data.flatMap((row, y) => row.flatMap((dark, x) => (dark ? [`M${x} ${y}h1v1h-1z`] : [])))
  return (
    <svg
      role="img"
      aria-label="The key as a QR code"
      viewBox={`0 0 ${data.size} ${data.size}`}
      shapeRendering="crispEdges"
      className="size-48 rounded-xl bg-white"
    >
      <path d={squares.join('')} fill="black" />
    </svg>
  )
}
