import { useMutation, useQuery } from '@tanstack/react-query'
import { Keyboard, LogOut, OctagonX, Settings2 } from 'lucide-react'
import { useState } from 'react'
import { isFailure } from '@anchorhold/protocol/failures'
import { daemon, wordsOf } from '../daemon.ts'
import { useHouse } from '../live/house.ts'
import { statusQuery } from '../live/queries.ts'
import { Dialog, Menu, Trouble } from '../ui/controls.tsx'
import { PanicDialog } from './PanicDialog.tsx'
import { openShortcuts } from './Shortcuts.tsx'
import { useWide } from './use-wide.ts'

/** What concerns the whole house: stopping everything, and leaving. */
export function HouseMenu({ up = false }: { readonly up?: boolean }) {
  const { forget } = useHouse()
  const wide = useWide()
  const { data: status } = useQuery(statusQuery)
  const [asking, setAsking] = useState(false)
  const leave = useMutation({
    mutationFn: () => daemon.logout(),
    onSuccess: forget,
    // Only the daemon can end a login; it may have ended before.
    onError: (error) => isFailure(error) && error.code === 'unauthenticated' && forget(),
  })
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
          {status?.simulated
            ? 'Rehearsal: no model is called'
            : status === undefined
              ? ''
              : `${status.provider} · ${status.rung}`}
        </p>
      )}
      <PanicDialog open={asking} onClose={() => setAsking(false)} />
      <Dialog open={leave.error !== null} title="This device is still logged in" onClose={() => leave.reset()}>
        <Trouble>{wordsOf(leave.error)}</Trouble>
        <p>Log out again when the daemon can be reached. From another device, Settings ends its login too.</p>
      </Dialog>
    </>
  )
}
