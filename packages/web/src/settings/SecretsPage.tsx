import { printableLine } from '@anchorhold/core/printable'
import type { CredentialView, SecretView } from '@anchorhold/protocol/api/secrets'
import { SecretName, secretCharsMin } from '@anchorhold/protocol/credentials'
import { queryOptions, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Plus } from 'lucide-react'
import { useState } from 'react'
import { daemon, wordsOf } from '../daemon.ts'
import { useIsOwner } from '../live/me.ts'
import { AskForm } from '../ui/AskForm.tsx'
import { Button, Dialog, Empty, Trouble } from '../ui/controls.tsx'
import { Panel, SettingsFrame } from './SettingsFrame.tsx'

const secretsQuery = queryOptions({ queryKey: ['secrets'], queryFn: () => daemon.listSecrets(), staleTime: 0 })

/** What the gate puts into calls, by name. It goes in here, and never comes out. */
export function SecretsPage() {
  const owner = useIsOwner()
  const { data, error } = useQuery({ ...secretsQuery, enabled: owner })
  const [changing, setChanging] = useState<'new' | SecretView | null>(null)
  return (
    <SettingsFrame title="Secrets">
      {!owner && <p className="text-sm text-soft">Only an owner can see the secrets.</p>}
      {error !== null && <Trouble>{wordsOf(error)}</Trouble>}
      {data?.secrets.length === 0 && changing === null && (
        <Empty title="No secrets yet">
          A secret is put into calls to the hosts that credentials.yaml names for it, on our side of the wall: no cell ever holds
          it.
        </Empty>
      )}
      {data?.secrets.map((secret) => (
        <OneSecret
          key={secret.name}
          secret={secret}
          uses={data.credentials.filter((one) => one.secret === secret.name)}
          onReplace={() => setChanging(secret)}
        />
      ))}
      {owner &&
        (changing === null ? (
          <Button look="primary" className="justify-self-start" onClick={() => setChanging('new')}>
            <Plus size={18} aria-hidden />
            Add a secret
          </Button>
        ) : (
          <PutSecret
            key={changing === 'new' ? '' : changing.name}
            secret={changing === 'new' ? null : changing}
            onDone={() => setChanging(null)}
          />
        ))}
    </SettingsFrame>
  )
}

function OneSecret({
  secret: { name, mask, changed_at: changed, inside },
  uses,
  onReplace,
}: {
  readonly secret: SecretView
  readonly uses: readonly CredentialView[]
  readonly onReplace: () => void
}) {
  const cache = useQueryClient()
  const [removing, setRemoving] = useState(false)
  const remove = useMutation({
    mutationFn: () => daemon.deleteSecret({ params: { name } }),
    onSettled: () => cache.invalidateQueries({ queryKey: secretsQuery.queryKey }),
  })
  return (
    <Panel
      title={name}
      about={`Since ${new Date(changed).toLocaleDateString()}`}
      action={<code className="font-mono text-sm text-soft">{printableLine(mask)}</code>}
    >
      {inside && <p className="text-sm text-danger">Sessions may be given it: code in their cells can read it then.</p>}
      {uses.length === 0 ? (
        <p className="text-sm text-soft">No host uses it yet: credentials.yaml says where a secret is put in.</p>
      ) : (
        <ul aria-label={`Where ${name} is used`} className="grid gap-1.5 text-sm [overflow-wrap:anywhere]">
          {uses.map((use, index) => (
            <li key={index}>
              <span className="font-medium">{printableLine(use.port === 443 ? use.host : `${use.host}:${use.port}`)}</span>
              <span className="text-soft">
                {' '}
                {printableLine(`${use.method?.join(', ') ?? 'every method'} ${use.path ?? ''}`)}, {ways[use.as]}
                {use.env !== undefined && printableLine(`; cells find a placeholder in ${use.env}`)}
              </span>
            </li>
          ))}
        </ul>
      )}
      {remove.error !== null && <Trouble>{wordsOf(remove.error)}</Trouble>}
      <div className="flex flex-wrap gap-2">
        <Button onClick={onReplace}>Replace…</Button>
        <Button look="ghost" onClick={() => setRemoving(true)}>
          Remove…
        </Button>
      </div>
      <Dialog open={removing} title={`Forget ${name}?`} onClose={() => setRemoving(false)}>
        <p className="mt-2 text-soft">
          It cannot be recovered from here. Calls that need it are made without it, and will be refused.
        </p>
        <div className="mt-6 flex justify-end gap-2">
          <Button onClick={() => setRemoving(false)}>Cancel</Button>
          <Button
            look="danger"
            onClick={() => {
              setRemoving(false)
              remove.mutate()
            }}
          >
            Delete it
          </Button>
        </div>
      </Dialog>
    </Panel>
  )
}

const ways = {
  header: 'in a header',
  basic: 'as a password',
  query: 'in the query',
} as const satisfies Record<CredentialView['as'], string>

function PutSecret({ secret, onDone }: { readonly secret: SecretView | null; readonly onDone: () => void }) {
  const cache = useQueryClient()
  const name = secret?.name ?? null
  // What sessions are given stays so under its name.
  const inside = secret?.inside === true && { inside: true }
  return (
    <Panel
      title={name === null ? 'Add a secret' : `Another one for ${name}`}
      about="It is stored encrypted, opened in the gate alone, and never shown again."
    >
      <AskForm
        fields={{
          name: {
            label: 'Name',
            initial: name ?? '',
            hint: 'Letters, digits, dash, underscore: as credentials.yaml calls it',
            autoComplete: 'off',
            autoFocus: name === null,
          },
          value: {
            label: 'Secret',
            type: 'password',
            hint: `At least ${secretCharsMin} characters; sent to the daemon once, and not shown again`,
            autoComplete: 'off',
          },
        }}
        action="Store it"
        isReady={(values) => SecretName.safeParse(values.name).success && values.value.length >= secretCharsMin}
        send={(values) =>
          daemon.putSecret({ params: { name: SecretName.parse(values.name) }, body: { value: values.value, ...inside } })
        }
        onDone={async () => {
          await cache.invalidateQueries({ queryKey: secretsQuery.queryKey })
          onDone()
        }}
        beside={<Button onClick={onDone}>Cancel</Button>}
      />
    </Panel>
  )
}
