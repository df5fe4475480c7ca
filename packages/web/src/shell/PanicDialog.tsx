import { useMutation, useQueryClient } from '@tanstack/react-query'
import { printable } from '@anchorhold/core/printable'
import { daemon, wordsOf } from '../daemon.ts'
import { statusQuery } from '../live/queries.ts'
import { Button, Dialog, Trouble } from '../ui/controls.tsx'

/** One more question before every agent is stopped. */
export function PanicDialog({ open, onClose }: { readonly open: boolean; readonly onClose: () => void }) {
  const queries = useQueryClient()
  const panic = useMutation({
    mutationFn: () => daemon.panic(),
    onSettled: () => queries.invalidateQueries({ queryKey: statusQuery.queryKey }),
  })
  const close = () => {
    onClose()
    panic.reset()
  }
  return (
    <Dialog open={open} title="Stop every agent?" onClose={close}>
      {panic.data === undefined ? (
        <>
          <p className="mt-2 text-soft">
            Every agent ends at once, in the middle of its work. Nothing runs from then on until you let agents run again.
            Workspaces and logs stay.
          </p>
          {panic.error !== null && (
            <div className="mt-4">
              <Trouble>{wordsOf(panic.error)}</Trouble>
            </div>
          )}
          <div className="mt-6 flex justify-end gap-2">
            <Button onClick={close}>Cancel</Button>
            <Button look="danger" disabled={panic.isPending} onClick={() => panic.mutate()}>
              Stop everything
            </Button>
          </div>
        </>
      ) : (
        <>
          <p role="status" className="mt-2 text-soft">
            {panic.data.sessions === 0 ? 'Nothing was running.' : `Stopped: ${panic.data.sessions}.`} Nothing runs until you let
            agents run again, at the top of the page.
          </p>
          {panic.data.left.map((what) => (
            <div key={what} className="mt-3">
              <Trouble>{printable(what)}</Trouble>
            </div>
          ))}
          <div className="mt-6 flex justify-end">
            <Button onClick={close}>Close</Button>
          </div>
        </>
      )}
    </Dialog>
  )
}
