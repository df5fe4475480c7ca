import { usualRung } from '@anchorhold/protocol/rungs'
import { z } from 'zod'

/** The seed's `local` is a process of this machine, which is walled in here like any other. */
const rungs = { local: usualRung(process.platform), container: 'container', gvisor: 'gvisor', firecracker: 'microvm' } as const
const pools = { min_workers: 'min', max_workers: 'max', idle_timeout_secs: 'idle_seconds' } as const

/** A policy file that was written for what came before Anchorhold, brought into the words of `config.yaml`. What it does not know
 *  passes through as it is. */
export const PolicyFile = z
  .looseObject({
    isolation_mode: z.enum(['local', 'container', 'gvisor', 'firecracker']).optional(),
    network_mode: z
      .enum(['proxy_only', 'none'], {
        error: 'No session has the network of the host: write proxy_only or none, or use anchorhold sandbox --net host',
      })
      .optional(),
    repo_filter: z.union([z.object({ custom: z.unknown() }).transform(({ custom }) => custom), z.unknown()]).optional(),
    pool: z
      .record(z.string(), z.unknown())
      .transform((pool) => Object.fromEntries(Object.entries(pool).map(([name, value]) => [wordFor(name), value])))
      .optional(),
  })
  .transform(({ isolation_mode, network_mode: _network, repo_filter, pool, ...rest }): unknown => {
    const rung = rest.rung ?? (isolation_mode === undefined ? undefined : rungs[isolation_mode])
    return {
      ...rest,
      ...(rung === undefined ? {} : { rung }),
      ...(repo_filter === undefined ? {} : { repo_filter }),
      ...(pool === undefined ? {} : { pools: { [typeof rung === 'string' ? rung : usualRung(process.platform)]: pool } }),
    }
  })

const wordFor = (name: string): string => (name in pools ? pools[name as keyof typeof pools] : name)
