import { printableLine } from '@anchorhold/core/printable'
import type { PolicyText } from '@anchorhold/protocol/api/policy-files'
import { queryOptions, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useDeferredValue, useState } from 'react'
import { daemon, wordsOf } from '../daemon.ts'
import { keys } from '../live/apply.ts'
import { useIsOwner } from '../live/me.ts'
import { Button, Trouble } from '../ui/controls.tsx'
import { Backtest } from '../ui/Backtest.tsx'
import { ExplainAction } from './ExplainAction.tsx'
import { PolicyEditor } from './PolicyEditor.tsx'
import { Panel, SettingsFrame } from './SettingsFrame.tsx'

const policyQuery = queryOptions({ queryKey: ['policy'], queryFn: () => daemon.showPolicy(), staleTime: 0 })
const fileQuery = (name: string | null) =>
  queryOptions({
    queryKey: ['policy file', name],
    queryFn: () => daemon.readPolicyFile({ query: name === null ? {} : { name } }),
    staleTime: 0,
    gcTime: 0,
  })

/** The policy files: owners write them here, comments and all; everybody sees what is in force. */
export function PolicyPage() {
  const owner = useIsOwner()
  const { data, error } = useQuery(policyQuery)
  const [name, setName] = useState<string | null>(null)
  const named = data?.files.flatMap((file) => (file.name === null ? [] : [file.name])) ?? []
  return (
    <SettingsFrame title="Policy">
      {error !== null && <Trouble>{wordsOf(error)}</Trouble>}
      {owner && named.length > 0 && (
        <select
          aria-label="Which file"
          className="field"
          value={name ?? ''}
          onChange={(event) => setName(event.target.value === '' ? null : event.target.value)}
        >
          <option value="">policy.yaml: every session</option>
          {named.map((one) => (
            <option key={one} value={one}>{`policies/${one}.yaml`}</option>
          ))}
        </select>
      )}
      {owner && data !== undefined && (
        <OneFile key={name} name={name} exists={data.files.some((file) => file.name === name && file.exists)} />
      )}
      {data !== undefined && (
        <Panel
          title="In force"
          about={`For a session that you would start now: ${data.policy.autonomy.replace('_', ' ')}, ${data.rules.length === 1 ? 'one rule' : `${data.rules.length} rules`}`}
        >
          {data.rules.length > 0 && (
            <ul className="grid gap-2 text-sm">
              {data.rules.slice(0, rulesShown).map(({ words, at }, index) => (
                <li key={index} className="flex flex-wrap items-baseline justify-between gap-x-4">
                  <code className="min-w-0 font-mono text-[0.8125rem] [overflow-wrap:anywhere]">{printableLine(words)}</code>
                  <span className="text-xs text-faint">
                    {printableLine(at.file)}:{at.line}
                  </span>
                </li>
              ))}
            </ul>
          )}
          {data.rules.length > rulesShown && <p className="text-sm text-faint">and {data.rules.length - rulesShown} more</p>}
        </Panel>
      )}
      {!owner && <ExplainAction text={null} />}
    </SettingsFrame>
  )
}

const rulesShown = 100

function OneFile({ name, exists }: { readonly name: string | null; readonly exists: boolean }) {
  const { data, error } = useQuery(fileQuery(name))
  if (error !== null) return <Trouble>{wordsOf(error)}</Trouble>
  return data === undefined ? null : <Writing key={data.sha256} file={data} exists={exists} />
}

/** A file while it is being changed. What is typed is checked as it stands; what is saved was looked at with the last 30 days. */
function Writing({ file, exists }: { readonly file: PolicyText; readonly exists: boolean }) {
  const cache = useQueryClient()
  const [text, setText] = useState(file.text)
  const wanted = useDeferredValue(text)
  const check = useQuery({
    queryKey: ['policy check', wanted],
    queryFn: () => daemon.checkPolicy({ body: { text: wanted, name: file.file } }),
    placeholderData: (old) => old,
    gcTime: 0,
  })
  const backtest = useMutation({ mutationFn: (draft: string) => daemon.backtestPolicy({ body: { text: draft } }) })
  const save = useMutation({
    mutationFn: () =>
      daemon.writePolicyFile({ body: { text, was: file.sha256, ...(file.name === null ? {} : { name: file.name }) } }),
    async onSuccess(written) {
      cache.setQueryData(fileQuery(file.name).queryKey, written)
      await Promise.all([
        cache.invalidateQueries({ queryKey: policyQuery.queryKey }),
        cache.invalidateQueries({ queryKey: keys.status }),
      ])
    },
  })
  const changed = text !== file.text
  const usable = check.data?.ok === true && !check.isPlaceholderData && wanted === text
  const tried = backtest.data !== undefined && backtest.variables === text
  return (
    <>
      <Panel
        title={printableLine(file.file)}
        about={
          file.in_force === 'current'
            ? exists
              ? 'The file itself, in the config folder of this machine'
              : 'What is saved here becomes this file, in the config folder of this machine'
            : file.in_force === 'locked'
              ? 'It is invalid, and there is no earlier version: nothing is allowed under it'
              : 'It is invalid: the version before it stays in force'
        }
      >
        {file.text === '' && (
          <p className="text-sm">
            {exists ? 'This file is empty' : 'There is no policy file'}: the defaults are in force. The grey text below is only an
            example.
          </p>
        )}
        <PolicyEditor text={text} onChange={setText} problems={check.data?.problems ?? []} />
        {check.error !== null && <Trouble>{wordsOf(check.error)}</Trouble>}
        {backtest.error !== null && <Trouble>{wordsOf(backtest.error)}</Trouble>}
        {save.error !== null && <Trouble>{wordsOf(save.error)}</Trouble>}
        {tried && changed && <Backtest found={backtest.data} />}
        <div className="flex flex-wrap items-center justify-end gap-2">
          {changed && (
            <Button look="ghost" onClick={() => setText(file.text)}>
              Undo all
            </Button>
          )}
          {tried && changed ? (
            <Button look="primary" disabled={!usable || save.isPending} onClick={() => save.mutate()}>
              {save.isPending ? 'Saving…' : 'Save and apply'}
            </Button>
          ) : (
            <Button look="primary" disabled={!changed || !usable || backtest.isPending} onClick={() => backtest.mutate(text)}>
              {backtest.isPending ? 'Looking back…' : 'Try it on the last 30 days'}
            </Button>
          )}
        </div>
      </Panel>
      <ExplainAction text={changed && usable ? text : null} />
    </>
  )
}
