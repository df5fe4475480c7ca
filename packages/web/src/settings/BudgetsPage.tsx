import { printableLine } from '@anchorhold/core/printable'
import type { BudgetView, SetBudget } from '@anchorhold/protocol/api/money'
import { formatUsd, parseUsd } from '@anchorhold/protocol/money'
import { queryOptions, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Plus } from 'lucide-react'
import { useState } from 'react'
import { daemon, wordsOf } from '../daemon.ts'
import { useIsOwner } from '../live/me.ts'
import { Button, Dialog, Trouble } from '../ui/controls.tsx'
import { Field } from '../ui/Field.tsx'
import { Panel, SettingsFrame } from './SettingsFrame.tsx'

const budgetsQuery = queryOptions({
  queryKey: ['budgets'],
  queryFn: async () => (await daemon.listBudgets()).budgets,
  staleTime: 0,
})

const spans = {
  day: 'Each day (UTC)',
  tick: 'Each tick',
  life: 'In total',
} as const satisfies Record<SetBudget['per'], string>
type Asked = { readonly node: string; readonly per: SetBudget['per']; readonly cap: number | null }

/** What the whole house and each group may spend. Groups are made by naming them. */
export function BudgetsPage() {
  const owner = useIsOwner()
  const { data, error } = useQuery(budgetsQuery)
  const [asked, setAsked] = useState<Asked | null>(null)
  const [naming, setNaming] = useState(false)
  const known = data ?? []
  // Play money has sums of its own under the same caps: it is shown where nothing else was spent.
  const shown = known.filter(
    ({ node, simulated }) => !simulated || !known.some((other) => other.node === node && !other.simulated),
  )
  const nodes = shown.some(({ node }) => node === 'owner') ? shown : [unspent, ...shown]
  return (
    <SettingsFrame title="Budgets">
      {error !== null && <Trouble>{wordsOf(error)}</Trouble>}
      {data !== undefined &&
        nodes.map((budget) => (
          <OneBudget key={`${budget.node} ${budget.simulated}`} budget={budget} owner={owner} onAsk={setAsked} />
        ))}
      {owner && (
        <Button className="justify-self-start" onClick={() => setNaming(true)}>
          <Plus size={18} aria-hidden />
          Budget of a group
        </Button>
      )}
      {asked !== null && <Change key={`${asked.node} ${asked.per}`} {...asked} onClose={() => setAsked(null)} />}
      <GroupName
        open={naming}
        onClose={() => setNaming(false)}
        onName={(name) => {
          setNaming(false)
          setAsked({ node: `group/${name}`, per: 'day', cap: null })
        }}
      />
    </SettingsFrame>
  )
}

const nothing = { spent_micros: 0, cap_micros: null, ends_at: null }
const unspent: BudgetView = { node: 'owner', simulated: false, life: nothing, day: nothing, tick: nothing }

const titleOf = (node: string) =>
  node === 'owner' ? 'The whole house' : printableLine(node.replace(/^group\//, 'Group ').replace(/^policy\//, 'Policy '))

function OneBudget({
  budget,
  owner,
  onAsk,
}: {
  readonly budget: BudgetView
  readonly owner: boolean
  readonly onAsk: (asked: Asked) => void
}) {
  const { node, simulated } = budget
  const title = titleOf(node)
  const byPolicy = node.startsWith('policy/')
  return (
    <Panel
      title={title}
      {...(byPolicy ? { about: 'Set by its policy file' } : simulated ? { about: 'Play money of the rehearsal' } : {})}
    >
      <ul className="grid gap-3">
        {(Object.keys(spans) as SetBudget['per'][]).map((per) => {
          const { spent_micros: spent, cap_micros: cap } = budget[per]
          const share = cap === null || cap === 0 ? 0 : Math.min(1, spent / cap)
          return (
            <li key={per} className="grid grid-cols-[1fr_auto] items-center gap-x-4 gap-y-1.5">
              <span className="text-sm">
                <span className="block">{spans[per]}</span>
                <span className="text-soft tabular-nums">
                  {formatUsd(spent)}
                  <span className="text-faint"> {cap === null ? 'of no limit' : `of ${formatUsd(cap)}`}</span>
                </span>
              </span>
              {owner && !byPolicy && (
                <Button
                  look="ghost"
                  aria-label={`Change ${title}, ${spans[per].toLowerCase()}`}
                  onClick={() => onAsk({ node, per, cap })}
                >
                  Change…
                </Button>
              )}
              {cap !== null && (
                <div
                  role="meter"
                  aria-label={`Spent of ${title}, ${spans[per].toLowerCase()}`}
                  aria-valuemin={0}
                  aria-valuemax={100}
                  aria-valuenow={Math.round(share * 100)}
                  className="col-span-2 h-1.5 overflow-hidden rounded-full bg-raised"
                >
                  <div
                    className={`h-full rounded-full ${share >= 0.8 ? 'bg-danger' : 'bg-accent'}`}
                    style={{ width: `${share * 100}%` }}
                  />
                </div>
              )}
            </li>
          )
        })}
      </ul>
    </Panel>
  )
}

function Change({ node, per, cap, onClose }: Asked & { readonly onClose: () => void }) {
  const cache = useQueryClient()
  const [text, setText] = useState(cap === null ? '' : (cap / 1_000_000).toFixed(2))
  const [span, setSpan] = useState(per)
  const nanos = text.trim() === '' ? null : parseUsd(text)
  const wrong = text.trim() !== '' && nanos === null
  const set = useMutation({
    mutationFn: () =>
      daemon.setBudget({ body: { node, per: span, budget_micros: nanos === null ? null : Math.floor(nanos / 1000) } }),
    onSuccess({ budgets }) {
      cache.setQueryData(budgetsQuery.queryKey, budgets)
      onClose()
    },
  })
  return (
    <Dialog open title={titleOf(node)} onClose={onClose}>
      <form
        className="mt-4 grid gap-4"
        onSubmit={(event) => {
          event.preventDefault()
          if (!wrong) set.mutate()
        }}
      >
        <Field label="Over">
          <select className="field" value={span} onChange={(event) => setSpan(event.target.value as SetBudget['per'])}>
            {Object.entries(spans).map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
        </Field>
        <Field label="Budget" hint={wrong ? 'An amount like 2 or 0.50' : 'In dollars; empty for no limit'} wrong={wrong}>
          <input
            autoFocus
            className="field"
            inputMode="decimal"
            value={text}
            aria-invalid={wrong}
            onChange={(event) => setText(event.target.value)}
          />
        </Field>
        {set.error !== null && <Trouble>{wordsOf(set.error)}</Trouble>}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" disabled={wrong || set.isPending}>
            Save
          </Button>
        </div>
      </form>
    </Dialog>
  )
}

function GroupName({
  open,
  onClose,
  onName,
}: {
  readonly open: boolean
  readonly onClose: () => void
  readonly onName: (name: string) => void
}) {
  const [name, setName] = useState('')
  const good = /^[a-z0-9][a-z0-9._-]{0,39}$/.test(name)
  return (
    <Dialog open={open} title="Which group?" onClose={onClose}>
      <form
        className="mt-4 grid gap-4"
        onSubmit={(event) => {
          event.preventDefault()
          if (good) onName(name)
        }}
      >
        <Field label="Name" hint="Small letters, digits, dot, dash, underscore; sessions join it when they are created">
          <input autoFocus className="field" value={name} onChange={(event) => setName(event.target.value)} spellCheck={false} />
        </Field>
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" disabled={!good}>
            Go on
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
