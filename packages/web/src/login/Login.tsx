import { useMutation, useQuery } from '@tanstack/react-query'
import { ChevronDown, KeyRound } from 'lucide-react'
import { type ReactNode, useState } from 'react'
import { daemon, wordsOf } from '../daemon.ts'
import { Mark } from '../shell/Mark.tsx'
import { AskForm, codeField, isCode, passwordField } from '../ui/AskForm.tsx'
import { Button, Trouble } from '../ui/controls.tsx'
import { LinkForm } from './LinkForm.tsx'
import { canPasskey, showPasskey } from './passkey.ts'

/** The ways in that this house has: a passkey first, then a password, and a link of the machine's always. */
export function Login({ trouble, onEntered }: { readonly trouble: string | null; readonly onEntered: () => void }) {
  const { data, isPending } = useQuery({
    queryKey: ['login ways'],
    queryFn: () => daemon.loginWays(),
    staleTime: 0,
    gcTime: 0,
    retry: false,
  })
  const [second, setSecond] = useState<string | null>(null)
  const passkey = useMutation({
    mutationFn: async () => daemon.loginByPasskey({ body: await showPasskey() }),
    onSuccess: onEntered,
  })
  if (second !== null)
    return (
      <Page>
        <CodeForm ticket={second} onBack={() => setSecond(null)} onEntered={onEntered} />
      </Page>
    )
  if (isPending) return <Page />
  const byPasskey = data?.passkey === true && canPasskey()
  const byPassword = data?.password === true
  return (
    <Page>
      <p className="text-soft">This device is not logged in.</p>
      {byPasskey && (
        <div className="grid gap-3">
          <Button look="primary" disabled={passkey.isPending} onClick={() => passkey.mutate()}>
            <KeyRound size={18} aria-hidden />
            Use a passkey
          </Button>
          {passkey.error !== null && <Trouble>{wordsOf(passkey.error)}</Trouble>}
        </div>
      )}
      {byPasskey && byPassword && (
        <p
          aria-hidden
          className="flex items-center gap-4 text-xs text-faint before:h-px before:flex-1 before:bg-line after:h-px after:flex-1 after:bg-line"
        >
          or
        </p>
      )}
      {byPassword && <PasswordForm quiet={byPasskey} onSecond={setSecond} onEntered={onEntered} />}
      {byPasskey || byPassword ? (
        <details className="group border-t border-line pt-2" open={trouble !== null}>
          <summary className="flex min-h-11 items-center justify-between rounded-xl px-1 text-sm text-soft hover:text-ink">
            Use a login link
            <ChevronDown size={16} aria-hidden className="transition-transform group-open:rotate-180" />
          </summary>
          <div className="pt-2">
            <LinkForm trouble={trouble} onEntered={onEntered} />
          </div>
        </details>
      ) : (
        <>
          <LinkForm trouble={trouble} onEntered={onEntered} />
          <p className="text-sm text-faint">
            A link works once, for fifteen minutes. This device stays logged in for seven days.
          </p>
        </>
      )}
    </Page>
  )
}

function Page({ children }: { readonly children?: ReactNode }) {
  return (
    <main className="scroll grid h-full place-items-center p-6">
      <div className="w-full max-w-sm">
        <Mark size={56} />
        <h1 className="mt-6 text-3xl font-semibold tracking-tight">Anchorhold</h1>
        <div className="mt-2 grid gap-5">{children}</div>
      </div>
    </main>
  )
}

function PasswordForm({
  quiet,
  onSecond,
  onEntered,
}: {
  readonly quiet: boolean
  readonly onSecond: (ticket: string) => void
  readonly onEntered: () => void
}) {
  return (
    <AskForm
      fields={{ name: { label: 'Name', initial: 'owner', autoComplete: 'username' }, password: passwordField }}
      action="Log in with the password"
      quiet={quiet}
      send={({ name, password }) => daemon.loginByPassword({ body: { name: name.trim().toLowerCase(), password } })}
      onDone={({ second }) => (second === null ? onEntered() : onSecond(second))}
    />
  )
}

function CodeForm({
  ticket,
  onBack,
  onEntered,
}: {
  readonly ticket: string
  readonly onBack: () => void
  readonly onEntered: () => void
}) {
  return (
    <AskForm
      fields={{ code: { ...codeField, autoFocus: true } }}
      action="Log in"
      isReady={({ code }) => isCode(code)}
      send={({ code }) => daemon.loginByCode({ body: { ticket, code } })}
      onDone={onEntered}
      beside={
        <Button className="flex-1" onClick={onBack}>
          Back
        </Button>
      }
    >
      <p className="text-soft">Password accepted. Now the code from your authenticator.</p>
    </AskForm>
  )
}
