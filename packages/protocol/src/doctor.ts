import { z } from 'zod'
import { Enforcement, LimitName, Rung } from './rungs.ts'

/** A hole that is known in what makes the cells of a rung, in the release that this machine has. */
export const KnownHole = z.object({
  /** By which it is known: CVE numbers. */
  ids: z.array(z.string()),
  /** Which release of which program has it, and what it lets happen. */
  what: z.string(),
  /** Whether the way in which cells are made meets it. Where that is not ruled out, a policy that requires a rung is not met. */
  touched: z.enum(['no', 'perhaps', 'yes']),
  why: z.string(),
  remedy: z.string(),
})
export type KnownHole = z.infer<typeof KnownHole>

export const RungReport = z.object({
  rung: Rung,
  /** Whether a real cell of it was seen to start. */
  available: z.boolean(),
  /** When that was tried last; null when it never was. */
  tried_at: z.int().nullable(),
  /** Median of a few real starts. */
  start_ms: z.number().nullable(),
  missing: z.array(z.object({ what: z.string(), remedy: z.string() })),
  limits: z.array(z.object({ name: LimitName, enforcement: Enforcement, how: z.string() })),
  /** What a session can ask for beyond the usual, where the rung has it. */
  extras: z
    .array(
      z.object({
        name: z.enum(['gpu', 'sudo', 'nested']),
        /** Whether a cell with it was seen to do what it is for. */
        available: z.boolean(),
        missing: z.array(z.object({ what: z.string(), remedy: z.string() })),
      }),
    )
    .optional(),
  /** What an operator should know of it beyond that. */
  notes: z.array(z.string()).optional(),
  /** Looked for each time, also where it is believed from before that the rung starts. */
  holes: z.array(KnownHole).optional(),
})

/** What this machine can do, each finding from a real run. */
export const DoctorReport = z.object({
  rungs: z.array(RungReport),
  kernel: z.object({
    release: z.string(),
    arch: z.string(),
    user_namespaces: z.boolean(),
    seccomp: z.boolean(),
    cgroups: z.enum(['v1', 'v2', 'hybrid', 'none']),
  }),
  toolchains: z.array(z.object({ name: z.string(), folders: z.array(z.string()) })),
})
export type DoctorReport = z.infer<typeof DoctorReport>
