import type { Session } from '@anchorhold/protocol/sessions'

/** Marks a session whose cell holds secrets, wherever it is named. */
export function SecretsMark({ of }: { readonly of: Pick<Session, 'secrets_inside'> }) {
  if (of.secrets_inside.length === 0) return null
  return (
    <span
      title={`Code in this cell can read: ${of.secrets_inside.join(', ')}`}
      className="shrink-0 rounded-full bg-danger-solid px-2 text-xs font-medium whitespace-nowrap text-white"
    >
      Secrets inside
    </span>
  )
}
