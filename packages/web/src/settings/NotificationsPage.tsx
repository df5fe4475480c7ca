import { printableLine } from '@anchorhold/core/printable'
import { queryOptions, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { BellRing } from 'lucide-react'
import { daemon, isUnreachable, wordsOf } from '../daemon.ts'
import { Button, Trouble } from '../ui/controls.tsx'
import { ago } from '../ui/time.ts'
import { Panel, SettingsFrame } from './SettingsFrame.tsx'

const devicesQuery = queryOptions({
  queryKey: ['push devices'],
  queryFn: async () => (await daemon.listPushDevices()).devices,
  staleTime: 0,
})

/** Whether this browser itself will show what it is told: the daemon cannot know that. */
const hereQuery = queryOptions({
  queryKey: ['push here'],
  async queryFn() {
    if (!isPossible() || Notification.permission !== 'granted') return false
    const registration = await navigator.serviceWorker.getRegistration()
    return ((await registration?.pushManager.getSubscription()) ?? null) !== null
  },
  staleTime: 0,
})

const isPossible = () => 'serviceWorker' in navigator && 'PushManager' in globalThis && 'Notification' in globalThis

/** Which devices are told when somebody is needed. */
export function NotificationsPage() {
  const cache = useQueryClient()
  const { data, error } = useQuery(devicesQuery)
  const { data: subscribed } = useQuery(hereQuery)
  const changed = () => Promise.all([devicesQuery, hereQuery].map(({ queryKey }) => cache.invalidateQueries({ queryKey })))
  const add = useMutation({ mutationFn: subscribe, onSuccess: changed })
  const remove = useMutation({
    mutationFn: (id: NonNullable<typeof data>[number]['id']) => daemon.removePushDevice({ params: { id } }),
    onSuccess: changed,
  })
  const here = data?.some((device) => device.this_one) === true
  const failed = remove.error ?? error
  return (
    <SettingsFrame title="Notifications">
      <Panel
        title="This device"
        about="Get a notification when an agent needs you, and when a turn ends that nobody watched. Nothing else."
      >
        {!isPossible() ? (
          <p className="text-sm text-soft">
            This browser cannot receive notifications. On an iPhone, add the app to the home screen first; elsewhere, the app must
            be reached by HTTPS or on this machine.
          </p>
        ) : here && subscribed === true ? (
          <p className="text-sm text-good">Notifications are on.</p>
        ) : (
          <>
            {here && subscribed === false && (
              <p className="text-sm text-danger">
                The daemon would notify it, but this browser no longer allows it: its permission was taken back or has expired.
              </p>
            )}
            <Button look="primary" className="justify-self-start" disabled={add.isPending} onClick={() => add.mutate()}>
              <BellRing size={18} aria-hidden />
              {add.isPending ? 'Asking the browser…' : 'Notify this device'}
            </Button>
          </>
        )}
        {add.error !== null && <Trouble>{add.error instanceof Refusal ? add.error.message : wordsOf(add.error)}</Trouble>}
        <p className="text-sm text-faint">
          Messages go through the push service of the browser’s maker, which cannot read them. What looks like a credential is
          left out, and what is dangerous can only be allowed in the app.
        </p>
      </Panel>
      {failed !== null && <Trouble>{wordsOf(failed)}</Trouble>}
      {data !== undefined && data.length > 0 && (
        <Panel title="Notified devices" about="Each until its login ends">
          <ul className="grid gap-3">
            {data.map(({ id, name, service, created_at: at, this_one: mine }) => (
              <li key={id} className="flex items-center justify-between gap-4">
                <span className="min-w-0 text-sm">
                  <span className="block truncate font-medium">
                    {printableLine(name)}
                    {mine && ' (this one)'}
                  </span>
                  <span className="block truncate text-faint">
                    {printableLine(service)} · {ago(at, Date.now())}
                  </span>
                </span>
                <Button
                  disabled={remove.isPending}
                  aria-label={`Stop notifying ${printableLine(name)}`}
                  onClick={() => remove.mutate(id)}
                >
                  Stop
                </Button>
              </li>
            ))}
          </ul>
        </Panel>
      )}
    </SettingsFrame>
  )
}

/** Why the browser, not the daemon, would not have it. */
class Refusal extends Error {}

async function subscribe(): Promise<void> {
  if ((await Notification.requestPermission()) !== 'granted')
    throw new Refusal('The browser blocks notifications from this page; its settings can change that')
  const { key } = await daemon.pushKey()
  const registration = await navigator.serviceWorker.ready
  let subscription: PushSubscription
  try {
    subscription = await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key })
  } catch {
    throw new Refusal('The browser could not reach its push service, or has none')
  }
  const { endpoint = '', keys = {} } = subscription.toJSON()
  try {
    const { p256dh = '', auth = '' } = keys
    await daemon.addPushDevice({ body: { endpoint, keys: { p256dh, auth }, name: deviceName(navigator.userAgent) } })
  } catch (error) {
    if (!isUnreachable(error)) await subscription.unsubscribe()
    throw error
  }
}

/** What people call a device: `Firefox on Android`. */
function deviceName(agent: string): string {
  const browser = /Edg/.test(agent) ? 'Edge' : /Firefox/.test(agent) ? 'Firefox' : /Chrome/.test(agent) ? 'Chrome' : 'Safari'
  const system = /iPhone|iPad/.exec(agent)?.[0] ?? /Android|Windows|Mac OS|Linux/.exec(agent)?.[0] ?? 'a device'
  return `${browser} on ${system}`
}
