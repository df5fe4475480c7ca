import type { KeeperPlace } from '@anchorhold/protocol/keeper-start'
import { type Folders, makeWindows } from '../folders.ts'
import { delegateCgroups } from './cgroups.ts'
import type { Runtime } from './runtime.ts'
import type { User } from './spare-keepers.ts'

type Place = KeeperPlace['place']
type House = { readonly folders: Folders; readonly runtime: Runtime; readonly limits: Place['limits'] }
type Wanted = Pick<Place, 'session' | 'workspace' | 'rung' | 'root' | 'extras'> & { readonly runAs: User | null }

/** What the cell of a session is made of, and where; also of one that is yet to be. Makes the folder of its windows and its control groups. */
export function keeperPlace({ folders, runtime, limits }: House, { session, runAs, ...wanted }: Wanted): Place {
  const { node, forwarder, reader, inside, engine } = runtime
  return {
    session,
    started_by: process.pid,
    folder: folders.session(session),
    windows: makeWindows(folders, session, runAs),
    ...wanted,
    files: { node, forwarder, reader, inside, engine },
    limits,
    cgroups: runAs === null ? [] : delegateCgroups(session, runAs),
  }
}
