import { printable, printableLine } from '@anchorhold/core/printable'
import type { ProviderView } from '@anchorhold/protocol/api/providers'
import { queryOptions, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Plus } from 'lucide-react'
import { useState } from 'react'
import { daemon, wordsOf } from '../daemon.ts'
import { keys } from '../live/apply.ts'
import { useIsOwner } from '../live/me.ts'
import { statusQuery } from '../live/queries.ts'
import { Button, Chip, Dialog, Trouble } from '../ui/controls.tsx'
import { AddProvider } from './AddProvider.tsx'
import { Panel, SettingsFrame } from './SettingsFrame.tsx'

const providersQuery = queryOptions({
  queryKey: ['providers'],
  queryFn: async () => (await daemon.listProviders()).providers,
  // Another door may have changed it, and no event of a session tells that.
  staleTime: 0,
})

/** Where model calls go, which of them is used, and which is in trouble. */
export function ProvidersPage() {
  const owner = useIsOwner()
  const { data, error } = useQuery(providersQuery)
  const [adding, setAdding] = useState<ProviderView | 'new' | null>(null)
  return (
    <SettingsFrame title="Providers and keys">
      {error !== null && <Trouble>{wordsOf(error)}</Trouble>}
      {data?.map((provider) => (
        <OneProvider key={provider.name} provider={provider} owner={owner} onReplace={() => setAdding(provider)} />
      ))}
      {owner && adding === null && (
        <Button look="primary" className="justify-self-start" onClick={() => setAdding('new')}>
          <Plus size={18} aria-hidden />
          Add a provider
        </Button>
      )}
      {adding !== null && (
        <AddProvider
          key={adding === 'new' ? '' : adding.name}
          replacing={adding === 'new' ? null : adding}
          onDone={() => setAdding(null)}
        />
      )}
      {!owner && <p className="px-1 text-sm text-faint">Only an owner can add or change providers.</p>}
    </SettingsFrame>
  )
}

function OneProvider({
  provider,
  owner,
  onReplace,
}: {
  readonly provider: ProviderView
  readonly owner: boolean
  readonly onReplace: () => void
}) {
  const { name, kind, base_url: url, model, credential, in_use: used } = provider
  const cache = useQueryClient()
  const { data: status } = useQuery(statusQuery)
  const [removing, setRemoving] = useState(false)
  const changed = async () => {
    await Promise.all([
      cache.invalidateQueries({ queryKey: providersQuery.queryKey }),
      cache.invalidateQueries({ queryKey: keys.status }),
    ])
  }
  const use = useMutation({ mutationFn: () => daemon.useProvider({ params: { name } }), onSuccess: changed })
  const test = useMutation({ mutationFn: () => daemon.testProvider({ params: { name } }), onSettled: changed })
  const remove = useMutation({ mutationFn: () => daemon.deleteProvider({ params: { name } }), onSuccess: changed })
  const trouble = used && status?.provider === name ? status.provider_trouble : null
  const rehearsal = kind === 'rehearsal'
  const failed = use.error ?? test.error ?? remove.error
  return (
    <Panel
      title={printableLine(name)}
      about={rehearsal ? 'No model is asked: a small fixed program answers, for play money' : kind}
      action={used && <Chip tone={trouble === null ? 'good' : 'danger'}>{trouble === null ? 'In use' : 'In trouble'}</Chip>}
    >
      {trouble !== null && (
        <Trouble>
          {printable(trouble)}. Replace its key here, or mend what it names on the machine; a test shows whether it works again.
        </Trouble>
      )}
      {!rehearsal && (
        <dl className="grid grid-cols-[auto_1fr] gap-x-6 gap-y-1.5 text-sm [overflow-wrap:anywhere]">
          <dt className="text-faint">Key</dt>
          <dd>{printableLine(credential)}</dd>
          <dt className="text-faint">Model</dt>
          <dd>{printableLine(model)}</dd>
          {url !== null && (
            <>
              <dt className="text-faint">Address</dt>
              <dd>{printableLine(url)}</dd>
            </>
          )}
        </dl>
      )}
      {test.data !== undefined && (
        <p role="status" className={`text-sm ${test.data.verdict === 'ok' ? 'text-good' : 'text-danger'}`}>
          {test.data.verdict === 'ok' ? 'It works.' : printable(`${verdicts[test.data.verdict]}: ${test.data.message}`)}
        </p>
      )}
      {failed !== null && <Trouble>{wordsOf(failed)}</Trouble>}
      {owner && (
        <div className="flex flex-wrap gap-2">
          {!used && (
            <Button disabled={use.isPending} onClick={() => use.mutate()}>
              Use
            </Button>
          )}
          {!rehearsal && (
            <>
              <Button disabled={test.isPending} onClick={() => test.mutate()}>
                {test.isPending ? 'Testing…' : 'Test'}
              </Button>
              <Button onClick={onReplace}>Replace the key…</Button>
              <Button look="ghost" onClick={() => setRemoving(true)}>
                Remove…
              </Button>
            </>
          )}
        </div>
      )}
      <Dialog open={removing} title={`Remove ${printableLine(name)}?`} onClose={() => setRemoving(false)}>
        <p className="mt-2 text-soft">
          Its key is deleted. Sessions that use it cannot make calls until they are given another provider.
        </p>
        <div className="mt-6 flex justify-end gap-2">
          <Button onClick={() => setRemoving(false)}>Cancel</Button>
          <Button
            look="danger"
            disabled={remove.isPending}
            onClick={() => {
              setRemoving(false)
              remove.mutate()
            }}
          >
            Remove
          </Button>
        </div>
      </Dialog>
    </Panel>
  )
}

const verdicts = {
  refused: 'The key was refused',
  unreachable: 'It cannot be reached',
  incompatible: 'Agents cannot use its answers',
} as const
