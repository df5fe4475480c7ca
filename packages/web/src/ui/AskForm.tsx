import { useMutation } from '@tanstack/react-query'
import { type InputHTMLAttributes, type ReactNode, useState } from 'react'
import { wordsOf } from '../daemon.ts'
import { Button, Trouble } from './controls.tsx'
import { Field } from './Field.tsx'

type Asked = Pick<
  InputHTMLAttributes<HTMLInputElement>,
  'autoComplete' | 'autoFocus' | 'inputMode' | 'maxLength' | 'placeholder' | 'type'
> & { readonly label: string; readonly hint?: string; readonly initial?: string; readonly mono?: boolean }

type Props<K extends string, T> = {
  readonly fields: { readonly [name in K]?: Asked }
  /** What the button says. */
  readonly action: string
  /** Another way stands before this one. */
  readonly quiet?: boolean
  readonly isReady?: (values: Readonly<Record<K, string>>) => boolean
  readonly send: (values: Readonly<Record<K, string>>) => Promise<T>
  readonly onDone: (answer: T) => void
  /** What went wrong before anything was sent. */
  readonly trouble?: string | null
  /** Another button beside it. */
  readonly beside?: ReactNode
  /** What stands above the fields. */
  readonly children?: ReactNode
}

const isFilled = (values: Readonly<Record<string, string>>) => Object.values(values).every((value) => value.trim() !== '')

/** A few fields and one button: what is written goes to the daemon once it is ready, and what goes wrong is said above the button. */
export function AskForm<K extends string, T>({
  fields,
  action,
  quiet = false,
  isReady = isFilled,
  send,
  onDone,
  trouble = null,
  beside,
  children,
}: Props<K, T>) {
  const asked = Object.entries(fields) as [K, Asked][]
  const [values, setValues] = useState(
    () => Object.fromEntries(asked.map(([name, { initial = '' }]) => [name, initial])) as Record<K, string>,
  )
  const sending = useMutation({ mutationFn: () => send(values), onSuccess: onDone })
  const ready = isReady(values) && !sending.isPending
  const wrong = sending.error === null ? trouble : wordsOf(sending.error)
  return (
    <form
      className="grid gap-4"
      onSubmit={(event) => {
        event.preventDefault()
        if (ready) sending.mutate()
      }}
    >
      {children}
      {asked.map(([name, { label, hint, mono = false, initial: was, ...rest }]) => (
        <Field key={name} label={label} {...(hint === undefined ? {} : { hint })}>
          <input
            {...rest}
            className={`field font-normal ${mono ? 'font-mono' : ''}`}
            value={values[name] ?? was}
            onChange={(event) => setValues({ ...values, [name]: event.target.value })}
            autoCapitalize="none"
            spellCheck={false}
          />
        </Field>
      ))}
      {wrong !== null && <Trouble>{wrong}</Trouble>}
      <div className="flex gap-2">
        {beside}
        <Button type="submit" look={quiet ? 'plain' : 'primary'} disabled={!ready} className="flex-1">
          {action}
        </Button>
      </div>
    </form>
  )
}

/** A code of an authenticator's, or one of those that were written down. */
export const codeField = { label: 'Code, or a recovery code', autoComplete: 'one-time-code', mono: true } as const
export const passwordField = { label: 'Password', type: 'password', autoComplete: 'current-password' } as const
export const isCode = (code: string): boolean => code.trim().length >= 6
