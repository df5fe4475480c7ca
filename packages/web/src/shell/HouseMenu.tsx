import { useMutation, useQuery } from '@tanstack/react-query'
import { Keyboard, LogOut, OctagonX, Settings2 } from 'lucide-react'
import { useState } from 'react'
import { daemon, wordsOf } from '../daemon.ts'
import { useHouse } from '../live/house.ts'
import { statusQuery } from '../live/queries.ts'
import { Button, Dialog, Menu, Trouble } from '../ui/controls.tsx'
import { openShortcuts } from './Shortcuts.tsx'
import { useWide } from './use-wide.ts'

/** What concerns the whole house: stopping everything, and leaving. */
export function HouseMenu({ up = false }: { readonly up?: boolean }) {
  const { forget } = useHouse()
  const wide = useWide()
  const { data: status } = useQuery(statusQuery)
  const [asking, setAsking] = useState(false)
  const panic = useMutation({ mutationFn: () => daemon.panic() })
  const leave = useMutation({ mutationFn: () => daemon.logout(), onSettled: forget })
  const close = () => {
    setAsking(false)
    panic.reset()
  }
  return (
    <>
      <Menu
        name="House"
        up={up}
        icon={<Settings2 size={20} aria-hidden />}
        entries={[
          { label: 'Stop every agent…', icon: <OctagonX size={18} />, danger: true, onSelect: () => setAsking(true) },
          ...(wide ? [{ label: 'Keyboard shortcuts', icon: <Keyboard size={18} />, onSelect: openShortcuts }] : []),
          { label: 'Log out', icon: <LogOut size={18} />, onSelect: () => leave.mutate() },
        ]}
      />
      {up && (
        <p className="min-w-0 truncate pl-1 text-xs text-faint">
          {status?.simulated ? 'Rehearsal: no model is asked' : status === undefined ? '' : `${status.provider} · ${status.rung}`}
        </p>
      )}
      <Dialog open={asking} title="Stop every agent?" onClose={close}>
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
    </>
  )
}
