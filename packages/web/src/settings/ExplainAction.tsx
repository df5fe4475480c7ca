import { printable, printableLine } from '@anchorhold/core/printable'
import { ruleWords } from '@anchorhold/core/policy/rule-words'
import type { ActionText } from '@anchorhold/protocol/actions'
import type { Effect } from '@anchorhold/protocol/policy'
import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { daemon, wordsOf } from '../daemon.ts'
import { Button, Trouble } from '../ui/controls.tsx'
import { Field } from '../ui/Field.tsx'
import { Panel } from './SettingsFrame.tsx'

const kinds = {
  command: { label: 'A command', example: 'git push origin main', action: (text) => ({ tool: 'Bash', command: text }) },
  net: { label: 'A call over the network', example: 'GET https://example.com/path', action: (text) => ({ net: text }) },
  edit: { label: 'A file it edits', example: 'src/main.ts', action: (text) => ({ tool: 'Edit', path: text }) },
  tool: { label: 'A tool', example: 'WebFetch', action: (text) => ({ tool: text }) },
  host: { label: 'A program of the host', example: 'deploy', action: (text) => ({ host: text }) },
  spend: { label: 'A model', example: 'claude-opus-5', action: (text) => ({ spend: text }) },
} as const satisfies Record<string, { label: string; example: string; action: (text: string) => ActionText }>
type Kind = keyof typeof kinds

const effects = {
  allow: { word: 'Allowed', tone: 'text-good' },
  ask: { word: 'Asked for', tone: 'text-accent-ink' },
  deny: { word: 'Denied', tone: 'text-danger' },
} as const satisfies Record<Effect, { word: string; tone: string }>

/** How an action would be decided and why: by what is in force, or by a text that is being written. */
export function ExplainAction({ text }: { readonly text: string | null }) {
  const [kind, setKind] = useState<Kind>('command')
  const [words, setWords] = useState('')
  const explain = useMutation({
    mutationFn: () =>
      daemon.explainAction({ body: { action: kinds[kind].action(words.trim()), ...(text === null ? {} : { text }) } }),
  })
  const found = explain.data
  return (
    <Panel
      title="What would happen?"
      about={text === null ? 'Under the policy in force' : 'Under the text above alone, which is not in force yet'}
    >
      <form
        className="grid gap-3 sm:grid-cols-[auto_1fr_auto] sm:items-end"
        onSubmit={(event) => {
          event.preventDefault()
          if (words.trim() !== '') explain.mutate()
        }}
      >
        <Field label="What">
          <select className="field" value={kind} onChange={(event) => setKind(event.target.value as Kind)}>
            {Object.entries(kinds).map(([value, { label }]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
        </Field>
        <Field label="Exactly">
          <input
            className="field font-mono"
            value={words}
            placeholder={kinds[kind].example}
            onChange={(event) => setWords(event.target.value)}
            spellCheck={false}
            autoCapitalize="off"
            autoComplete="off"
          />
        </Field>
        <Button type="submit" disabled={words.trim() === '' || explain.isPending}>
          Explain
        </Button>
      </form>
      {explain.error !== null && <Trouble>{wordsOf(explain.error)}</Trouble>}
      {found !== undefined && (
        <div role="status" className="grid gap-2 text-sm [overflow-wrap:anywhere]">
          <p>
            <strong className={effects[found.effect].tone}>{effects[found.effect].word}</strong>: {printable(found.by)}
            {found.at !== null && (
              <span className="text-faint">
                {' '}
                ({printableLine(found.at.file)}:{found.at.line})
              </span>
            )}
          </p>
          {found.command !== null && (
            <p className="text-soft">
              Because of <code className="font-mono">{printableLine(found.command)}</code>
            </p>
          )}
          {found.limits
            .filter(({ by }) => by !== found.by)
            .map(({ by, effect }) => (
              <p key={by} className="text-soft">
                <strong className={effects[effect].tone}>{effects[effect].word}</strong> beside the rules: {printable(by)}
              </p>
            ))}
          {found.unseen.length > 0 && <p className="text-faint">Not looked at: {printable(found.unseen.join('; '))}</p>}
          {found.change.map((change) => (
            <p key={change} className="text-soft">
              {printable(change)}
            </p>
          ))}
          {found.rule !== null && found.effect !== 'allow' && (
            <p className="rounded-xl bg-raised px-4 py-3 font-mono text-[0.8125rem]">{printableLine(ruleWords(found.rule))}</p>
          )}
        </div>
      )}
    </Panel>
  )
}
