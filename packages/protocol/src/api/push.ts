import { z } from 'zod'
import { PushDeviceId, SessionId } from '../ids.ts'
import { Done, type Route } from './route.ts'

const base64url = (bytes: number) => z.string().regex(new RegExp(`^[A-Za-z0-9_-]{${Math.ceil((bytes * 4) / 3)}}=*$`))

/** What a browser gives out to be reached by: https://www.w3.org/TR/push-api/ */
export const AddPushDevice = z.strictObject({
  endpoint: z.string().max(2000).describe('HTTPS, of a push service in the public network or one that `push_hosts` names'),
  keys: z.strictObject({ p256dh: base64url(65), auth: base64url(16) }),
  name: z.string().trim().min(1).max(100).describe('For people, to tell their devices apart'),
})
export type AddPushDevice = z.infer<typeof AddPushDevice>

export const PushDevice = z.object({
  id: PushDeviceId,
  name: z.string(),
  service: z.string().describe('The host of its push service'),
  created_at: z.int(),
  this_one: z.boolean().describe('Whether this very login asked for it'),
})
export type PushDevice = z.infer<typeof PushDevice>

export const pushRoutes = {
  pushKey: {
    summary: 'The key that a browser subscribes with',
    status: 200,
    response: z.object({ key: z.string() }),
  },
  listPushDevices: {
    summary: 'Your devices that are notified when you are needed',
    status: 200,
    response: z.object({ devices: z.array(PushDevice) }),
  },
  addPushDevice: {
    summary: 'Notify this device, until its login ends',
    body: AddPushDevice,
    status: 201,
    response: PushDevice,
  },
  removePushDevice: {
    summary: 'Stop notifying a device',
    params: z.strictObject({ id: PushDeviceId }),
    status: 200,
    response: Done,
  },
  watching: {
    summary: 'Somebody looks at a session right now: they need no notification when its turn ends',
    params: z.strictObject({ id: SessionId }),
    status: 200,
    response: Done,
  },
  notWatching: {
    summary: 'They have put it away: they are notified from now on',
    params: z.strictObject({ id: SessionId }),
    status: 200,
    response: Done,
  },
} as const satisfies Record<string, Route>
