import { modelHosts } from '@anchorhold/daemon/app/credentials'
import type { Config } from '@anchorhold/daemon/config'
import type { NetTerms } from '@anchorhold/protocol/link'
import { storedProviders } from './provider.ts'

/** What a cell without a session is held to on its net window: as a session that has no repository at any forge and no credential. */
export function netTerms({ netCa, mirrors, forges }: Pick<Config, 'netCa' | 'mirrors' | 'forges'>, database: string): NetTerms {
  return {
    ca: netCa,
    mirrors: { ...mirrors },
    forges: Object.fromEntries(Object.keys(forges).map((host) => [host, null])),
    credentials: [],
    model_hosts: modelHosts({ list: () => storedProviders(database, (table) => table.list()) ?? [] }),
  }
}
