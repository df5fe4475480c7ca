import { type Actor, may, seenBy } from '@anchorhold/core/actors'
import { isWithin } from '@anchorhold/core/workspace-paths'
import type { HostFolders } from '@anchorhold/protocol/api/folders'
import { foldersIn, type HostFoldersOptions, rootFolders } from '../../workspace/host-folders.ts'
import { type Parts, type Reads, require } from '../parts.ts'

const recentMax = 8
/** How many sessions are looked at for them. */
const sessionsMax = 200

/** Where a session may be made: what an owner has named, or what lies in it. Members and agents see the folders that are for
 *  everybody, as they may work in no other. */
export async function listFolders(parts: Reads & Pick<Parts, 'config'>, actor: Actor, path: string | null): Promise<HostFolders> {
  require(parts, actor, 'session.create')
  const { config } = parts
  const anywhere = may(actor, 'session.any_folder')
  const options: HostFoldersOptions = {
    roots: anywhere ? [...config.workspaceRoots, ...config.sharedFolders] : config.sharedFolders,
    home: config.home,
    reserved: [config.state, config.config],
  }
  if (path !== null) return { ...(await foldersIn(path, options)), recent: [] }
  const used = parts.store.sessions
    .list({ archived: false, state: null, before: null, limit: sessionsMax, seenBy: seenBy(actor) })
    .flatMap(({ options: { workspace } }) => (workspace === undefined ? [] : [workspace]))
    .filter((folder) => anywhere || config.sharedFolders.some((shared) => isWithin(folder, shared)))
  const recent = [...new Set(used)].slice(0, recentMax)
  return { path: null, above: null, folders: await rootFolders(options), more: false, recent }
}
