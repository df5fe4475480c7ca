import { printableLine } from '@anchorhold/core/printable'
import type { Device } from '@anchorhold/protocol/api/login'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { MonitorSmartphone } from 'lucide-react'
import { daemon, wordsOf } from '../daemon.ts'
import { useHouse } from '../live/house.ts'
import { Button, Chip, Trouble } from '../ui/controls.tsx'
import { ago } from '../ui/time.ts'
import { accountQuery } from './account-query.ts'
import { Panel } from './SettingsFrame.tsx'

/** Every login is a device. One that is logged out loses what it has open at the same moment. */
export function DevicesPanel({ devices }: { readonly devices: readonly Device[] }) {
  const cache = useQueryClient()
  const others = useMutation({
    mutationFn: () => daemon.revokeOthers({}),
    onSuccess: () => cache.invalidateQueries({ queryKey: accountQuery.queryKey }),
  })
  return (
    <Panel title="Devices" about="Where you are logged in. Each is logged out automatically after seven days.">
      <ul className="grid gap-1">
        {devices.map((device) => (
          <OneDevice key={device.id} device={device} />
        ))}
      </ul>
      {others.error !== null && <Trouble>{wordsOf(others.error)}</Trouble>}
      {devices.some((device) => !device.this) && (
        <Button className="justify-self-start" disabled={others.isPending} onClick={() => others.mutate()}>
          Log out all others
        </Button>
      )}
    </Panel>
  )
}

function OneDevice({ device }: { readonly device: Device }) {
  const cache = useQueryClient()
  const { forget } = useHouse()
  const revoke = useMutation({
    mutationFn: () => daemon.revokeToken({ params: { id: device.id } }),
    onSuccess: () => (device.this ? forget() : cache.invalidateQueries({ queryKey: accountQuery.queryKey })),
  })
  const name = printableLine(device.name)
  const used = ago(device.used_at ?? device.created_at, Date.now())
  return (
    <li className="flex min-h-14 items-center gap-3">
      <MonitorSmartphone size={20} aria-hidden className="shrink-0 text-faint" />
      <span className="min-w-0 flex-1">
        <span className="flex items-center gap-2">
          <span className="truncate">{name}</span>
          {device.this && <Chip tone="good">This one</Chip>}
        </span>
        <span className="block truncate text-sm text-faint">
          {device.address === null ? '' : `${printableLine(device.address)} · `}
          {used === 'now' ? 'active now' : `active ${used} ago`}
        </span>
        {revoke.error !== null && <Trouble>{wordsOf(revoke.error)}</Trouble>}
      </span>
      <Button look="ghost" aria-label={`Log out ${name}`} disabled={revoke.isPending} onClick={() => revoke.mutate()}>
        Log out
      </Button>
    </li>
  )
}
