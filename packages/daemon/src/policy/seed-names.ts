import { usualRung } from '@anchorhold/protocol/rungs'
import { RepoFilter } from '@anchorhold/protocol/sessions'
import { z } from 'zod'

/** The seed's `local` is a process of this machine, which is walled in here like any other. */
export const seedRungs = {
  local: usualRung(process.platform),
  container: 'container',
  gvisor: 'gvisor',
  firecracker: 'microvm',
} as const
const pools = { min_workers: 'min', max_workers: 'max', idle_timeout_secs: 'idle_seconds' } as const

export const IsolationMode = z.enum(['local', 'container', 'gvisor', 'firecracker'])
/** The seed's own lists stand below `custom`. */
export const SeedRepoFilter = z.union([RepoFilter, z.strictObject({ custom: RepoFilter }).transform(({ custom }) => custom)])

/** A policy file that was written for what came before Anchorhold, brought into the words of `config.yaml`. What it does not know
 *  passes through as it is. */
export const SeedConfig = z
  .looseObject({
    isolation_mode: IsolationMode.optional(),
    /** Of all sessions that say nothing of it. */
    network_mode: z
      .enum(['proxy_only', 'none'], {
        error:
          "No session shares the host's network by default: write proxy_only or none here, network_mode: host in policy.yaml, and ask for it by name (--network host)",
      })
      .optional(),
    repo_filter: z.union([z.object({ custom: z.unknown() }).transform(({ custom }) => custom), z.unknown()]).optional(),
    pool: z
      .record(z.string(), z.unknown())
      .transform((pool) => Object.fromEntries(Object.entries(pool).map(([name, value]) => [wordFor(name), value])))
      .optional(),
  })
  .transform(({ isolation_mode, network_mode, repo_filter, pool, ...rest }): unknown => {
    const rung = rest.rung ?? (isolation_mode === undefined ? undefined : seedRungs[isolation_mode])
    return {
      ...rest,
      ...(rung === undefined ? {} : { rung }),
      ...(network_mode === undefined ? {} : { network: network_mode }),
      ...(repo_filter === undefined ? {} : { repo_filter }),
      ...(pool === undefined ? {} : { pools: { [typeof rung === 'string' ? rung : usualRung(process.platform)]: pool } }),
    }
  })

const wordFor = (name: string): string => (name in pools ? pools[name as keyof typeof pools] : name)
