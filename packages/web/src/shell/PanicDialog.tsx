import { useMutation } from '@tanstack/react-query'
import { daemon, wordsOf } from '../daemon.ts'
import { Button, Dialog, Trouble } from '../ui/controls.tsx'

/** One more question before every agent is stopped. */
export function PanicDialog({ open, onClose }: { readonly open: boolean; readonly onClose: () => void }) {
  const panic = useMutation({ mutationFn: () => daemon.panic() })
  const close = () => {
    onClose()
    panic.reset()
  }
  return (
    <Dialog open={open} title="Stop every agent?" onClose={close}>
      {panic.data === undefined ? (
        <>
          <p className="mt-2 text-soft">
            Every cell ends at once and every window closes, in the middle of whatever is being done. Workspaces and logs stay,
            and each session can be started again.
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
            {panic.data.sessions === 0 ? 'Nothing was running.' : `Stopped: ${panic.data.sessions}.`}
          </p>
          <div className="mt-6 flex justify-end">
            <Button onClick={close}>Close</Button>
          </div>
        </>
      )}
    </Dialog>
  )
}
