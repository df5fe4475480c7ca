import { boundCredentials, modelHosts, placeholders } from '@anchorhold/daemon/app/secrets/credentials'
import { forgesFor, repoFor } from '@anchorhold/daemon/app/workspace/repos'
import type { Config } from '@anchorhold/daemon/config'
import { keepStored, readStored } from '@anchorhold/daemon/store/sqlite/from-beside'
import type { Workspace } from '@anchorhold/daemon/workspace/workspace'
import type { NetTerms } from '@anchorhold/protocol/gate-commands'

type Houses = Pick<Config, 'config' | 'netCa' | 'mirrors' | 'forges'>

/** The repository that a cell has at a forge, as a session has it: what its folder came from before any cell was in it. That is kept
 *  where the daemon keeps it, because this cell can write there too; where no daemon ever was, it could not be, and there is none. */
export const repoOf = (config: Houses, database: string, workspace: Pick<Workspace, 'from'>): string | null =>
  Object.keys(config.forges).length === 0 ? null : keepStored(database, (store) => repoFor({ config, store }, {}, workspace))

/** What a cell without a session is held to on its net window: as a session of nobody's with this repository. */
export function netTerms(config: Houses, database: string, repo: string | null): Omit<NetTerms, 'slowness'> {
  const stored = readStored(database, (store) => ({
    credentials: boundCredentials({ config, store }, nobody),
    providers: store.providers.list(),
  }))
  return {
    ca: config.netCa,
    mirrors: { ...config.mirrors },
    forges: Object.fromEntries(forgesFor(config, repo === null ? {} : { repo })),
    credentials: stored?.credentials ?? [],
    model_hosts: modelHosts({ list: () => stored?.providers ?? [] }),
  }
}

/** What its programs find in the place of secrets. */
export const netPlaceholders = (config: Houses): Record<string, string> => placeholders({ config }, nobody)

/** Credentials that are for some users are for their sessions, and this is none. */
const nobody = null
