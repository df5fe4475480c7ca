import { printableLine } from '@anchorhold/core/printable'
import type { Token } from '@anchorhold/protocol/api/access'
import { queryOptions, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { KeySquare, Plus } from 'lucide-react'
import { useState } from 'react'
import { daemon, wordsOf } from '../daemon.ts'
import { AskForm } from '../ui/AskForm.tsx'
import { Button, CopyButton, Dialog, Trouble } from '../ui/controls.tsx'
import { ago } from '../ui/time.ts'
import { Panel } from './SettingsFrame.tsx'

export const tokensQuery = queryOptions({
  queryKey: ['tokens'],
  queryFn: async () => (await daemon.listTokens()).tokens,
  staleTime: 0,
})

/** What programs come in with: made and shown once, listed, revoked. */
export function TokensPanel({ user }: { readonly user: string }) {
  const cache = useQueryClient()
  const { data, error } = useQuery(tokensQuery)
  const [made, setMade] = useState<'asking' | { readonly name: string; readonly secret: string } | null>(null)
  const mine = data?.filter((token) => token.kind === 'token' && token.user === user)
  const again = () => cache.invalidateQueries({ queryKey: tokensQuery.queryKey })
  return (
    <Panel title="Tokens" about="What programs use instead of a login. A token may do what you may, until it is revoked.">
      {error !== null && <Trouble>{wordsOf(error)}</Trouble>}
      {mine !== undefined && mine.length > 0 && (
        <ul aria-label="Tokens" className="grid gap-1">
          {mine.map((token) => (
            <OneToken key={token.id} token={token} onGone={again} />
          ))}
        </ul>
      )}
      {mine?.length === 0 && <p className="text-sm text-faint">No tokens yet.</p>}
      <Button className="justify-self-start" onClick={() => setMade('asking')}>
        <Plus size={18} aria-hidden />
        Make a token
      </Button>
      <Dialog open={made !== null} title={made === 'asking' ? 'Make a token' : 'The token'} onClose={() => setMade(null)}>
        {made === 'asking' ? (
          <div className="mt-4">
            <AskForm
              fields={{
                name: { label: 'Name', hint: 'What it is for', autoFocus: true, maxLength: 100 },
                days: { label: 'Valid for (days)', hint: 'Empty: it does not expire', inputMode: 'numeric', initial: '90' },
              }}
              action="Make it"
              isReady={({ name, days }) => name.trim() !== '' && (days.trim() === '' || daysIn(days) !== null)}
              send={({ name, days }) => {
                const count = daysIn(days)
                return daemon.createToken({ body: { name: name.trim(), ...(count === null ? {} : { days: count }) } })
              }}
              onDone={({ token: { name }, secret }) => {
                setMade({ name, secret })
                void again()
              }}
              beside={<Button onClick={() => setMade(null)}>Cancel</Button>}
            />
          </div>
        ) : (
          made !== null && <Shown {...made} onDone={() => setMade(null)} />
        )}
      </Dialog>
    </Panel>
  )
}

const daysMax = 3650
function daysIn(text: string): number | null {
  const count = Number(text.trim())
  return text.trim() !== '' && Number.isInteger(count) && count >= 1 && count <= daysMax ? count : null
}

function Shown({ name, secret, onDone }: { readonly name: string; readonly secret: string; readonly onDone: () => void }) {
  return (
    <div className="mt-2 grid gap-4">
      <p className="text-soft">It is shown only once: the daemon keeps just its hash. Whoever has it can do what you can.</p>
      <p className="flex items-start gap-2 rounded-xl bg-raised py-2 pr-2 pl-4">
        <code className="min-w-0 flex-1 py-1 font-mono text-[0.8125rem] [overflow-wrap:anywhere]">{printableLine(secret)}</code>
        <CopyButton text={secret} name={`Copy the token ${printableLine(name)}`} />
      </p>
      <Button look="primary" onClick={onDone}>
        I have saved it
      </Button>
    </div>
  )
}

function OneToken({ token, onGone }: { readonly token: Token; readonly onGone: () => Promise<void> }) {
  const revoke = useMutation({ mutationFn: () => daemon.revokeToken({ params: { id: token.id } }), onSuccess: onGone })
  const name = printableLine(token.name)
  const now = Date.now()
  const used =
    token.used_at === null ? 'never used' : ago(token.used_at, now) === 'now' ? 'used now' : `used ${ago(token.used_at, now)} ago`
  const ends = token.expires_at === null ? 'does not expire' : `until ${new Date(token.expires_at).toLocaleDateString()}`
  return (
    <li className="flex min-h-14 items-center gap-3">
      <KeySquare size={20} aria-hidden className="shrink-0 text-faint" />
      <span className="min-w-0 flex-1">
        <span className="block truncate">{name}</span>
        <span className="block truncate text-sm text-faint">
          {used} · {ends}
        </span>
        {revoke.error !== null && <Trouble>{wordsOf(revoke.error)}</Trouble>}
      </span>
      <Button look="ghost" aria-label={`Revoke ${name}`} disabled={revoke.isPending} onClick={() => revoke.mutate()}>
        Revoke
      </Button>
    </li>
  )
}
