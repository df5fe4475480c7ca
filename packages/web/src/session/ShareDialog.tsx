import { printableLine } from '@anchorhold/core/printable'
import { ShareAccess } from '@anchorhold/protocol/people'
import type { Session } from '@anchorhold/protocol/sessions'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { daemon, wordsOf } from '../daemon.ts'
import { peopleQuery } from '../settings/people-query.ts'
import { Button, Dialog, Trouble } from '../ui/controls.tsx'
import { Field } from '../ui/Field.tsx'

const words = { work: 'can work on it and answer its requests', view: 'can view it' } as const satisfies Record<
  ShareAccess,
  string
>

/** Who else may work on a session or look at it: to be given, and to be taken back. */
export function ShareDialog({ session, onClose }: { readonly session: Session; readonly onClose: () => void }) {
  const { id } = session
  const cache = useQueryClient()
  const key = ['shares', id]
  const { data: shares, error } = useQuery({
    queryKey: key,
    queryFn: async () => (await daemon.listShares({ params: { id } })).shares,
    staleTime: 0,
  })
  const { data: people } = useQuery(peopleQuery)
  const [name, setName] = useState('')
  const [access, setAccess] = useState<ShareAccess>('view')
  const keep = ({ shares: now }: { readonly shares: NonNullable<typeof shares> }) => cache.setQueryData(key, now)
  const share = useMutation({
    mutationFn: () => daemon.shareSession({ params: { id, name }, body: { access: mayWork ? access : 'view' } }),
    onSuccess(now) {
      keep(now)
      setName('')
    },
  })
  const unshare = useMutation({
    mutationFn: (whose: string) => daemon.unshareSession({ params: { id, name: whose } }),
    onSuccess: keep,
  })
  const others = (people ?? []).filter(
    (one) =>
      (one.role === 'member' || one.role === 'viewer') &&
      one.name !== session.owner &&
      shares?.every((given) => given.name !== one.name),
  )
  const mayWork = others.find((one) => one.name === name)?.role === 'member'
  const failed = error ?? share.error ?? unshare.error
  return (
    <Dialog open title="Who else sees this session?" onClose={onClose}>
      <ul aria-label="Shared with" className="mt-4 grid gap-2">
        {shares?.map((one) => (
          <li key={one.user} className="flex items-center gap-3 rounded-xl bg-raised py-1.5 pr-1.5 pl-4 text-sm">
            <span className="min-w-0 flex-1 [overflow-wrap:anywhere]">
              <span className="font-medium">{printableLine(one.name)}</span>{' '}
              <span className="text-soft">{words[one.access]}</span>
            </span>
            <Button look="ghost" disabled={unshare.isPending} onClick={() => unshare.mutate(one.name)}>
              Remove<span className="sr-only"> {printableLine(one.name)}</span>
            </Button>
          </li>
        ))}
        {shares?.length === 0 && <li className="text-sm text-soft">Nobody but {printableLine(session.owner)} and the owners.</li>}
      </ul>
      {failed !== null && (
        <div className="mt-3">
          <Trouble>{wordsOf(failed)}</Trouble>
        </div>
      )}
      {others.length === 0 ? (
        <p className="mt-4 text-sm text-faint">Nobody to share it with yet: add members and viewers under People.</p>
      ) : (
        <form
          className="mt-5 grid gap-4 border-t border-line pt-4"
          onSubmit={(event) => {
            event.preventDefault()
            if (name !== '') share.mutate()
          }}
        >
          <Field label="With">
            <select className="field" value={name} onChange={(event) => setName(event.target.value)}>
              <option value="">Choose somebody</option>
              {others.map((one) => (
                <option key={one.id} value={one.name}>
                  {printableLine(one.name)} ({one.role})
                </option>
              ))}
            </select>
          </Field>
          {mayWork && (
            <Field label="For">
              <select className="field" value={access} onChange={(event) => setAccess(ShareAccess.parse(event.target.value))}>
                <option value="view">View it</option>
                <option value="work">Work on it and answer its requests</option>
              </select>
            </Field>
          )}
          <div className="flex justify-end gap-2">
            <Button onClick={onClose}>Done</Button>
            <Button type="submit" look="primary" disabled={name === '' || share.isPending}>
              Share
            </Button>
          </div>
        </form>
      )}
    </Dialog>
  )
}
