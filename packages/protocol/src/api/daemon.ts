import { z } from 'zod'
import { DoctorReport } from '../doctor.ts'
import { PolicyTrouble } from '../policy.ts'
import { LimitName, Rung } from '../rungs.ts'
import { SessionState } from '../sessions.ts'
import { type Route } from './route.ts'

export const Status = z.object({
  version: z.string(),
  pid: z.int(),
  url: z.string(),
  started_at: z.int(),
  state_folder: z.string(),
  rung: Rung,
  rung_available: z.boolean(),
  limits_missing: z
    .array(z.object({ name: LimitName, how: z.string() }))
    .describe('Limits of a cell that this machine cannot enforce, and why'),
  rung_missing: z.array(z.object({ what: z.string(), remedy: z.string() })),
  provider: z.string(),
  provider_trouble: z.string().nullable().describe('Why its credential cannot be used, if it cannot'),
  provider_refused: z.boolean().describe('Whether the provider turned its last call away because of the credential'),
  other_providers: z
    .array(z.object({ provider: z.string(), trouble: z.string().nullable(), refused: z.boolean() }))
    .describe('The same of every other provider in trouble that a session which is not archived uses, of those that you see'),
  simulated: z.boolean(),
  gate: z.enum(['up', 'down']),
  sessions: z.record(SessionState, z.int()),
  keepers: z.int(),
  key_store: z.enum(['environment', 'keyring', 'file']).describe('Where the key is that secrets are encrypted under'),
  disk: z
    .object({ free_bytes: z.int(), low: z.boolean() })
    .nullable()
    .describe('Where the state folder lies; null where that cannot be told'),
  policy_trouble: z.array(PolicyTrouble).describe('Why a policy file cannot be used, and what is in force in its place'),
  panic: z
    .object({ at: z.int(), actor: z.string(), everybodys: z.boolean() })
    .nullable()
    .describe('Who has stopped every agent, or all of yours; nothing runs until that is lifted'),
  credentials_trouble: z
    .string()
    .nullable()
    .describe('Why credentials.yaml cannot be used: no session starts but with the network none'),
})
export type Status = z.infer<typeof Status>

export const Reached = z.object({
  nonce: z.string(),
  address: z.string().nullable().describe('Where the daemon believes that the call came from'),
  doubted: z.boolean().describe('A proxy said whom it heard from, and is not believed: trusted_proxies is not set'),
})

export const daemonRoutes = {
  openReach: {
    summary: 'A nonce by which the daemon can be known again through its public URL, for a few minutes',
    status: 201,
    response: z.object({ nonce: z.string() }),
  },
  reach: {
    summary: 'Answers to who has the nonce; as a stream it stays open, so that a proxy that holds it back is found out',
    params: z.strictObject({ nonce: z.string().min(1).max(100) }),
    status: 200,
    response: Reached,
    open: true,
  },
  status: { summary: 'The daemon, its rung and provider', status: 200, response: Status },
  health: {
    summary: 'Whether the daemon answers',
    status: 200,
    response: z.object({ ok: z.boolean(), gate: z.boolean(), store: z.boolean() }),
  },
  doctor: {
    summary: 'What isolation this machine can give',
    status: 200,
    response: DoctorReport,
  },
  panic: {
    summary: 'Stop every agent, revoke every lease, close every window; nothing runs until it is lifted',
    status: 200,
    response: z.object({
      sessions: z.int(),
      launched: z.int().describe('Cells that were launched without a daemon, and ended'),
      left: z.array(z.string()).describe('What could not be stopped, in sentences'),
    }),
  },
  liftPanic: {
    summary: 'Let agents run again after a panic; starts none',
    status: 200,
    response: z.object({ lifted: z.boolean() }),
  },
  shutdown: {
    summary: 'End the daemon; with `all`, keepers and gate as well',
    body: z.strictObject({ all: z.boolean().optional() }).optional(),
    status: 200,
    response: z.object({ left_running: z.int() }),
  },
} as const satisfies Record<string, Route>
