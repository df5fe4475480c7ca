import { printableLine } from '@anchorhold/core/printable'
import { PolicyName, Role, ShareAccess, type User, UserName } from '@anchorhold/protocol/people'
import { SessionId } from '@anchorhold/protocol/ids'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Plus } from 'lucide-react'
import { useState } from 'react'
import { daemon, wordsOf } from '../daemon.ts'
import { useIsOwner } from '../live/me.ts'
import { sessionsQuery } from '../live/queries.ts'
import { Button, CopyButton, Dialog, Trouble } from '../ui/controls.tsx'
import { Field } from '../ui/Field.tsx'
import { peopleQuery } from './people-query.ts'
import { Panel, SettingsFrame } from './SettingsFrame.tsx'

const roles = {
  owner: 'May do everything here',
  member: 'Works on their own sessions and on those shared with them',
  viewer: 'Sees what is shared with them',
  agent: 'A program: runs its own sessions under its policy, and cannot widen anything',
} as const satisfies Record<Role, string>

/** Who may enter, and what each of them may do. */
export function PeoplePage() {
  const owner = useIsOwner()
  const { data, error } = useQuery(peopleQuery)
  const [adding, setAdding] = useState(false)
  return (
    <SettingsFrame title="People">
      {error !== null && <Trouble>{wordsOf(error)}</Trouble>}
      {data?.map((user) => (
        <OnePerson key={user.id} user={user} owner={owner} />
      ))}
      {owner &&
        (adding ? (
          <AddPerson onDone={() => setAdding(false)} />
        ) : (
          <Button look="primary" className="justify-self-start" onClick={() => setAdding(true)}>
            <Plus size={18} aria-hidden />
            Add somebody
          </Button>
        ))}
    </SettingsFrame>
  )
}

type Asking = 'remove' | 'share' | null

function OnePerson({ user, owner }: { readonly user: User; readonly owner: boolean }) {
  const cache = useQueryClient()
  const [asking, setAsking] = useState<Asking>(null)
  const changed = () => cache.invalidateQueries({ queryKey: peopleQuery.queryKey })
  const params = { name: user.name }
  const change = useMutation({ mutationFn: (role: Role) => daemon.changeUser({ params, body: { role } }), onSettled: changed })
  const invite = useMutation({ mutationFn: () => daemon.inviteUser({ params }) })
  const remove = useMutation({ mutationFn: () => daemon.removeUser({ params }), onSuccess: changed })
  const failed = change.error ?? invite.error ?? remove.error
  const name = printableLine(user.name)
  return (
    <Panel title={name} about={user.policy === null ? roles[user.role] : `${roles[user.role]} (${printableLine(user.policy)})`}>
      {owner && (
        <div className="flex flex-wrap items-center gap-2">
          <select
            aria-label={`Role of ${name}`}
            className="field !w-auto"
            value={user.role}
            disabled={change.isPending}
            onChange={(event) => change.mutate(Role.parse(event.target.value))}
          >
            {Role.options.map((role) => (
              <option key={role} value={role}>
                {role}
              </option>
            ))}
          </select>
          {user.role !== 'agent' && (
            <Button disabled={invite.isPending} onClick={() => invite.mutate()}>
              Invite
            </Button>
          )}
          {(user.role === 'member' || user.role === 'viewer') && (
            <Button onClick={() => setAsking('share')}>Share a session…</Button>
          )}
          <Button look="ghost" onClick={() => setAsking('remove')}>
            Remove…
          </Button>
        </div>
      )}
      {invite.data !== undefined && (
        <div role="status" className="grid gap-1 rounded-xl bg-raised px-4 py-3 text-sm">
          <p>
            Give this link to {name}: it logs one browser in, once, within three days (until{' '}
            {new Date(invite.data.expires_at).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' })}).
          </p>
          <p className="flex items-start justify-between gap-2">
            <code className="min-w-0 font-mono text-[0.8125rem] [overflow-wrap:anywhere]">{printableLine(invite.data.url)}</code>
            <CopyButton text={invite.data.url} name="Copy the link" className="-my-1 shrink-0" />
          </p>
        </div>
      )}
      {failed !== null && <Trouble>{wordsOf(failed)}</Trouble>}
      <Dialog open={asking === 'remove'} title={`Remove ${name}?`} onClose={() => setAsking(null)}>
        <p className="mt-2 text-soft">Their logins, tokens and open pages end at once. Their sessions stay.</p>
        <div className="mt-6 flex justify-end gap-2">
          <Button onClick={() => setAsking(null)}>Cancel</Button>
          <Button
            look="danger"
            onClick={() => {
              setAsking(null)
              remove.mutate()
            }}
          >
            Remove
          </Button>
        </div>
      </Dialog>
      {asking === 'share' && <ShareSession user={user} onClose={() => setAsking(null)} />}
    </Panel>
  )
}

function ShareSession({ user, onClose }: { readonly user: User; readonly onClose: () => void }) {
  const { data } = useQuery(sessionsQuery(false))
  const [session, setSession] = useState('')
  const [access, setAccess] = useState<ShareAccess>(user.role === 'viewer' ? 'view' : 'work')
  const share = useMutation({
    mutationFn: () => daemon.shareSession({ params: { id: SessionId.parse(session), name: user.name }, body: { access } }),
    onSuccess: onClose,
  })
  return (
    <Dialog open title={`Share with ${printableLine(user.name)}`} onClose={onClose}>
      <form
        className="mt-4 grid gap-4"
        onSubmit={(event) => {
          event.preventDefault()
          if (session !== '') share.mutate()
        }}
      >
        <Field label="Session">
          <select className="field" value={session} onChange={(event) => setSession(event.target.value)}>
            <option value="">Choose one</option>
            {data?.sessions.map(({ id, name }) => (
              <option key={id} value={id}>
                {printableLine(name)}
              </option>
            ))}
          </select>
        </Field>
        <Field label="For">
          <select className="field" value={access} onChange={(event) => setAccess(ShareAccess.parse(event.target.value))}>
            {user.role !== 'viewer' && <option value="work">Work on it and answer its requests</option>}
            <option value="view">View it</option>
          </select>
        </Field>
        {share.error !== null && <Trouble>{wordsOf(share.error)}</Trouble>}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" disabled={session === '' || share.isPending}>
            Share
          </Button>
        </div>
      </form>
    </Dialog>
  )
}

function AddPerson({ onDone }: { readonly onDone: () => void }) {
  const cache = useQueryClient()
  const [name, setName] = useState('')
  const [role, setRole] = useState<Role>('member')
  const [policy, setPolicy] = useState('')
  const wrong = name !== '' && !UserName.safeParse(name).success
  const wrongPolicy = policy !== '' && !PolicyName.safeParse(policy).success
  const add = useMutation({
    mutationFn: () => daemon.addUser({ body: { name, role, ...(role === 'agent' && policy !== '' ? { policy } : {}) } }),
    async onSuccess() {
      await cache.invalidateQueries({ queryKey: peopleQuery.queryKey })
      onDone()
    },
  })
  const ready = name !== '' && !wrong && !wrongPolicy && !add.isPending
  return (
    <Panel title="Add somebody" about={roles[role]}>
      <form
        className="grid gap-4"
        onSubmit={(event) => {
          event.preventDefault()
          if (ready) add.mutate()
        }}
      >
        <div className="grid gap-4 sm:grid-cols-2">
          <Field label="Name" hint="Small letters, digits, dot, dash, underscore" wrong={wrong}>
            <input
              autoFocus
              className="field"
              value={name}
              onChange={(event) => setName(event.target.value)}
              autoComplete="off"
              spellCheck={false}
              aria-invalid={wrong}
            />
          </Field>
          <Field label="Role">
            <select className="field" value={role} onChange={(event) => setRole(Role.parse(event.target.value))}>
              {Role.options.map((one) => (
                <option key={one} value={one}>
                  {one}
                </option>
              ))}
            </select>
          </Field>
          {role === 'agent' && (
            <Field label="Policy" hint="The named policy that its sessions are held to" wrong={wrongPolicy}>
              <input className="field" value={policy} onChange={(event) => setPolicy(event.target.value)} spellCheck={false} />
            </Field>
          )}
        </div>
        {add.error !== null && <Trouble>{wordsOf(add.error)}</Trouble>}
        <div className="flex justify-end gap-2">
          <Button onClick={onDone}>Cancel</Button>
          <Button type="submit" look="primary" disabled={!ready}>
            Add
          </Button>
        </div>
      </form>
    </Panel>
  )
}
