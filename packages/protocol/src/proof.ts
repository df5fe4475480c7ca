import { z } from 'zod'
import { Rung } from './rungs.ts'

/** How one check of an attack came out. `error` is an attack that could not be carried out, and never counts as blocked. */
export const Verdict = z.enum(['blocked', 'open', 'not applicable', 'error'])
export type Verdict = z.infer<typeof Verdict>

export const Finding = z.object({
  check: z.string(),
  verdict: Verdict,
  /** What the cell answered, or why the check does not apply to this rung. It comes from inside: it is shown, never believed. */
  seen: z.string(),
})
export type Finding = z.infer<typeof Finding>

/** One attack on one rung. */
export const Assault = z.object({ attack: z.string(), rung: Rung, findings: z.array(Finding), took_ms: z.number() })
export type Assault = z.infer<typeof Assault>

/** What the attacks found on this installation's own rungs. */
export const ProofReport = z.object({
  version: z.string(),
  /** Milliseconds since 1970. */
  at: z.number(),
  kernel: z.object({ release: z.string(), arch: z.string() }),
  /** Whether cells were started by root, each as a user of its own, or by an ordinary user. */
  as: z.enum(['root', 'user']),
  attacks: z.array(z.object({ name: z.string(), promise: z.string(), guard: z.string() })),
  rungs: z.array(
    z.object({ rung: Rung, available: z.boolean(), missing: z.array(z.object({ what: z.string(), remedy: z.string() })) }),
  ),
  /** Rungs that claim no wall, and so were not attacked. */
  not_attacked: z.array(Rung),
  assaults: z.array(Assault),
})
export type ProofReport = z.infer<typeof ProofReport>

/** What the proving process says, one line each: what it is about to do, and in the end the report. */
export const ProofLine = z.union([z.object({ doing: z.string() }), z.object({ report: ProofReport })])
