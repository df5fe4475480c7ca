import type { ProviderView, PutProvider } from '@anchorhold/protocol/api/providers'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { daemon, wordsOf } from '../daemon.ts'
import { keys } from '../live/apply.ts'
import { Button, Trouble } from '../ui/controls.tsx'
import { Field } from '../ui/Field.tsx'
import { Panel } from './SettingsFrame.tsx'

type Kind = PutProvider['kind']
const kinds = {
  anthropic: { label: 'Anthropic', needsKey: true },
  openrouter: { label: 'OpenRouter', needsKey: true },
  local: { label: 'A server of your own', needsKey: false },
} as const satisfies Record<Kind, { label: string; needsKey: boolean }>

/** Adds a provider, or gives one another key. The key goes one way: no door ever shows it again. */
export function AddProvider({ replacing, onDone }: { readonly replacing: ProviderView | null; readonly onDone: () => void }) {
  const cache = useQueryClient()
  const [kind, setKind] = useState<Kind>(replacing === null || replacing.kind === 'rehearsal' ? 'anthropic' : replacing.kind)
  const [name, setName] = useState(replacing?.name ?? 'anthropic')
  const [url, setUrl] = useState(replacing?.base_url ?? '')
  const [key, setKey] = useState('')
  const [model, setModel] = useState(replacing?.model ?? '')
  const put = useMutation({
    mutationFn: ({ test }: { readonly test: boolean }) =>
      daemon.putProvider({
        params: { name },
        body: {
          kind,
          test,
          credential: key === '' ? { from: 'none' } : { from: 'key', key },
          ...(url === '' ? {} : { base_url: url }),
          ...(model === '' ? {} : { model }),
          ...(replacing === null || replacing.in_use ? {} : { use: false }),
        },
      }),
    async onSuccess() {
      await Promise.all([
        cache.invalidateQueries({ queryKey: ['providers'] }),
        cache.invalidateQueries({ queryKey: keys.status }),
      ])
      onDone()
    },
  })
  const badName = !/^[a-z][a-z0-9-]{0,39}$/.test(name)
  const ready = !badName && (key !== '' || !kinds[kind].needsKey) && (kind !== 'local' || url !== '') && !put.isPending
  return (
    <Panel
      title={replacing === null ? 'Add a provider' : `Another key for ${replacing.name}`}
      about="The key is tried with one small call and stored encrypted. It is never shown again, and no cell ever holds it."
    >
      <form
        className="grid gap-4"
        onSubmit={(event) => {
          event.preventDefault()
          if (ready) put.mutate({ test: true })
        }}
      >
        {replacing === null && (
          <div className="grid gap-4 sm:grid-cols-2">
            <Field label="Kind">
              <select
                className="field"
                value={kind}
                onChange={(event) => {
                  const chosen = event.target.value as Kind
                  setKind(chosen)
                  setName(chosen)
                }}
              >
                {Object.entries(kinds).map(([value, { label }]) => (
                  <option key={value} value={value}>
                    {label}
                  </option>
                ))}
              </select>
            </Field>
            <Field label="Name" hint={badName ? 'Small letters, digits and dashes' : 'What sessions call it'} wrong={badName}>
              <input className="field" value={name} onChange={(event) => setName(event.target.value)} spellCheck={false} />
            </Field>
          </div>
        )}
        {(kind === 'local' || replacing?.base_url != null) && (
          <Field label="Address" hint="As seen from this machine; for Ollama http://127.0.0.1:11434">
            <input className="field" type="url" value={url} onChange={(event) => setUrl(event.target.value)} />
          </Field>
        )}
        <Field
          label="Key"
          hint={kinds[kind].needsKey ? 'Sent to the daemon once, and not shown again' : 'If the server needs one'}
        >
          <input
            className="field"
            type="password"
            autoComplete="off"
            value={key}
            onChange={(event) => setKey(event.target.value)}
          />
        </Field>
        <Field label="Model" hint="For sessions that name none. Default: the provider's own">
          <input className="field" value={model} onChange={(event) => setModel(event.target.value)} spellCheck={false} />
        </Field>
        {put.error !== null && <Trouble>{wordsOf(put.error)}</Trouble>}
        <div className="flex flex-wrap justify-end gap-2">
          <Button onClick={onDone}>Cancel</Button>
          {put.error !== null && (
            <Button disabled={!ready} onClick={() => put.mutate({ test: false })}>
              Save without testing
            </Button>
          )}
          <Button type="submit" look="primary" disabled={!ready}>
            {put.isPending ? 'Testing it…' : 'Test and save'}
          </Button>
        </div>
      </form>
    </Panel>
  )
}
