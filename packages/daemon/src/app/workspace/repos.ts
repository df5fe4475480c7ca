import { forgeRules, repoOfUrl } from '@anchorhold/core/net/forges'
import { noSettings, type PolicySettings } from '@anchorhold/core/policy/effective'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionRepo } from '@anchorhold/protocol/forges'
import type { SessionOptions } from '@anchorhold/protocol/session-options'
import { dirname } from 'node:path'
import type { Config } from '../../config.ts'
import type { Workspace } from '../../workspace/workspace.ts'
import type { FolderTable } from '../../store/store.ts'

/** What is asked of the house. */
type Houses = { readonly config: Pick<Config, 'forges'>; readonly store: { readonly folders: FolderTable } }

/** The repository that a new session has, as `host/owner/name`: the one that it is given by name, or the one that its folder came from.
 *  Where a folder came from is read before the first cell is in it, and kept: what a cell writes there later names nothing. */
export function repoFor(parts: Houses, options: Pick<SessionOptions, 'repo'>, { from }: Pick<Workspace, 'from'>): string | null {
  const known = from === null ? null : knownOf(parts, from)
  if (options.repo === undefined) return known
  const [name = '', owner = '', host] = options.repo.split('/').toReversed()
  const hosts = Object.keys(parts.config.forges)
  const [only, ...others] = host === undefined ? hosts : hosts.filter((one) => one === host.toLowerCase())
  if (only !== undefined && others.length === 0) return `${only}/${owner}/${name}`
  throw new Failure(
    'bad_request',
    `Cannot give the session the repository "${options.repo}": ${only === undefined ? 'its forge is not configured' : 'there are several forges'}`,
    { hint: only === undefined ? 'Name the forge in config.yaml: forges' : `Write it as ${only}/${owner}/${name}` },
  )
}

function knownOf({ store }: Pick<Houses, 'store'>, { path: folder, origin }: NonNullable<Workspace['from']>): string | null {
  const before = store.folders.repoOf(folder)
  if (before !== undefined) return before
  const url = isBelowKnown(store.folders, folder) ? null : origin
  const found = url === null ? null : repoOfUrl(url)
  const repo = found === null ? null : `${found.host}/${found.repo}`
  store.folders.keepRepo(folder, repo)
  return repo
}

/** A cell that had a folder above could write here too. */
function isBelowKnown(folders: FolderTable, folder: string): boolean {
  for (let at = dirname(folder); ; at = dirname(at)) {
    if (folders.repoOf(at) !== undefined) return true
    if (at === dirname(at)) return false
  }
}

/** What a session has at each forge that is configured. */
export function forgesFor(
  { forges }: Pick<Config, 'forges'>,
  { repo: named }: Pick<SessionOptions, 'repo'>,
): ReadonlyMap<string, SessionRepo | null> {
  const [host, ...name] = (named ?? '').split('/')
  return new Map(
    Object.entries(forges).map(([forge, { api, push }]) => [
      forge,
      forge === host
        ? { host: forge, api: api ?? (forge === 'github.com' ? 'api.github.com' : null), repo: name.join('/'), push }
        : null,
    ]),
  )
}

/** What a session may do with its own repository. */
export function forgeSettings(config: Pick<Config, 'forges'>, options: Pick<SessionOptions, 'repo'>): PolicySettings {
  const own = [...forgesFor(config, options).values()].filter((one) => one !== null)
  return { ...noSettings('config.yaml'), rules: own.flatMap(forgeRules).map((rule) => ({ rule, line: 1 })) }
}
