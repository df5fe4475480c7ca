import { useConnection, useHouse } from '../live/house.ts'
import type { Waiting } from '../outbox/outbox.ts'
import { PromptView } from './items/ItemView.tsx'

/** A prompt that the log does not show yet: on its way, kept until the connection is back, or refused. */
export function WaitingView({ waiting }: { readonly waiting: Waiting }) {
  const { outbox } = useHouse()
  const live = useConnection() === 'live'
  return (
    <div className="grid justify-items-end gap-1">
      <div className="w-full opacity-70">
        <PromptView item={{ text: waiting.text, images: 0, queued: null, at: waiting.at }} />
      </div>
      {waiting.refused === null ? (
        <p role="status" className="text-xs text-faint">
          {waiting.id === null && !outbox.isKept(waiting.key)
            ? 'This device has no room to keep it: leave this page open until it is sent'
            : live
              ? 'Sending…'
              : 'Kept on this device: sent when the connection is back'}
        </p>
      ) : (
        <div role="alert" className="grid justify-items-end gap-1 text-sm text-danger">
          <p className="[overflow-wrap:anywhere]">{waiting.refused}</p>
          <p className="flex gap-1">
            <button
              type="button"
              className="min-h-9 rounded-lg px-3 underline underline-offset-4"
              onClick={() => void outbox.retry(waiting.key)}
            >
              Try again
            </button>
            <button
              type="button"
              className="min-h-9 rounded-lg px-3 underline underline-offset-4"
              onClick={() => outbox.discard(waiting.key)}
            >
              Discard
            </button>
          </p>
        </div>
      )}
    </div>
  )
}
